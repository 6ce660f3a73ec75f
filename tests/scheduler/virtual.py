"""A cluster on virtual time for whole stories: the real snapshot and plan, and the least of an operator and a
kube-scheduler.

The operator here applies targets, placements and leavers as the real one will: it creates and deletes pods and
writes target, times and pod-seconds into status. The pod scheduler binds what fits, planned node first, and says
Unschedulable of the rest. Pods need `grace` seconds to go.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from edl.api.job_view import JobView, replicas_at
from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import Pod, convert
from edl.jobs import views
from edl.scheduler.memory import Memory
from edl.scheduler.placement.resources import PODS, Amounts, amounts, pod_requests
from edl.scheduler.plan import Decision, Plan, plan
from edl.scheduler.plan_cache import PlanCache
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.builder import SnapshotBuilder
from edl.scheduler.snapshot.objects import Objects, from_plain
from edl.scheduler.snapshot.types import Snapshot

Data = dict[str, Any]


class VirtualPod:
    """One pod as the cluster has it."""

    def __init__(self, name: str, namespace: str, spec: Data, *, created: float, job: str = "", role: str = "") -> None:
        self.name, self.namespace, self.spec = name, namespace, spec
        self.created, self.job, self.role = created, job, role
        self.node = ""
        self.prefers = ""
        self.since: float | None = None
        self.refused: float | None = None
        self.goes: float | None = None
        self.done = False
        self.owner: Data | None = None
        self.labels: dict[str, str] = {}
        self.requests: Amounts = pod_requests(convert(spec, Pod.__annotations__["spec"])) | {PODS: 1}
        self._typed: Pod | None = None

    def changed(self) -> None:
        self._typed = None

    def typed(self) -> Pod:
        if self._typed is None:
            self._typed = convert(self.plain(), Pod)
        return self._typed

    def plain(self) -> Data:
        metadata: Data = {
            "name": self.name,
            "namespace": self.namespace,
            "uid": f"uid-{self.namespace}-{self.name}",
            "creationTimestamp": timestamp.text(self.created),
            "labels": self.labels,
        }
        if self.owner is not None:
            metadata["ownerReferences"] = [self.owner]
        if self.goes is not None:
            metadata["deletionTimestamp"] = timestamp.text(self.goes)
        spec = dict(self.spec)
        status: Data = {"phase": "Pending"}
        if self.node:
            spec["nodeName"] = self.node
            status = {"phase": "Running", "startTime": timestamp.text(self.since or 0.0)}
        elif self.refused is not None:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            status["conditions"] = [condition | {"lastTransitionTime": timestamp.text(self.refused)}]
        if self.done:
            status["phase"] = "Succeeded"
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


class VirtualCluster:
    def __init__(self, nodes: list[Data], *, now: float, grace: float = 0.0, settings: Settings | None = None) -> None:
        self.now = now
        self.grace = grace
        self.settings = settings or Settings()
        self.memory = Memory()
        self.builder, self.cache = SnapshotBuilder(), PlanCache()
        self.fixed = from_plain(nodes)
        self.capacity = {
            node.metadata.name: amounts(node.status.allocatable)
            for node in sorted(self.fixed.nodes, key=lambda node: node.metadata.name)
        }
        self.used: dict[str, Amounts] = {name: {} for name in self.capacity}
        self.pods: dict[tuple[str, str], VirtualPod] = {}
        self.jobs: dict[str, Data] = {}
        self.views: dict[str, JobView] = {}
        self._typed: dict[str, Any] = {}
        self.counter = 0
        self.rescales = 0
        self.kills = 0
        self.accepts: Callable[[VirtualPod, str], bool] = lambda pod, node: True
        self.last: Plan | None = None

    # what users do

    def submit(self, job: Data) -> None:
        job = msgspec.json.decode(msgspec.json.encode(job))
        job["metadata"]["creationTimestamp"] = timestamp.text(self.now)
        self.jobs[job["metadata"]["name"]] = job
        self._refresh(job["metadata"]["name"])

    def finish(self, name: str) -> None:
        """Its trainers are done: everything of it goes."""
        for key in [key for key, pod in self.pods.items() if pod.job == name]:
            self._remove(key)
        del self.jobs[name], self.views[name], self._typed[name]

    def add_foreign(self, name: str, spec: Data, owner: str = "web", on: str = "") -> None:
        pod = VirtualPod(name, "default", spec, created=self.now)
        pod.prefers = on
        pod.owner = {
            "kind": "ReplicaSet",
            "apiVersion": "apps/v1",
            "name": owner,
            "uid": f"uid-{owner}",
            "controller": True,
        }
        self.pods["default", name] = pod

    def edit(self, name: str, annotations: dict[str, str]) -> None:
        self.jobs[name]["metadata"]["annotations"] |= annotations
        self._refresh(name)

    def lose(self, key: tuple[str, str]) -> None:
        """A pod is gone, as with its node."""
        self._remove(key)

    def delete_foreign(self, name: str) -> None:
        self._remove(("default", name))

    # what the cluster does

    def snapshot(self) -> Snapshot:
        return self.builder.build(
            Objects(
                nodes=self.fixed.nodes,
                pods=tuple(pod.typed() for pod in self.pods.values()),
                jobs=tuple(self._typed.values()),
                quotas=self.fixed.quotas,
                limit_ranges=self.fixed.limit_ranges,
                priority_classes=self.fixed.priority_classes,
                namespaces=self.fixed.namespaces,
            )
        )

    def cycle(self) -> Plan:
        """One scheduling cycle, applied, and the pod scheduler after it."""
        self.settle()
        result = plan(self.snapshot(), self.memory, now=self.now, settings=self.settings, cache=self.cache)
        self.memory = msgspec.json.decode(msgspec.json.encode(result.memory), type=Memory)
        for decision in result.jobs:
            self._apply(decision)
        self.settle()
        self.last = result
        return result

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def settle(self) -> None:
        """Pods whose time has come go; pods that fit are bound."""
        for key in [key for key, pod in self.pods.items() if pod.goes is not None and pod.goes <= self.now]:
            self._remove(key)
        for pod in self.pods.values():
            if not pod.node and pod.goes is None and not pod.done:
                self._bind(pod)

    def _bind(self, pod: VirtualPod) -> None:
        names = [pod.prefers, *self.capacity] if pod.prefers else list(self.capacity)
        for name in names:
            if self.has_room(name, pod.requests) and self.accepts(pod, name):
                pod.node, pod.since, pod.refused = name, self.now, None
                for resource, units in pod.requests.items():
                    self.used[name][resource] = self.used[name].get(resource, 0) + units
                pod.changed()
                return
        if pod.refused is None:
            pod.refused = self.now
            pod.changed()

    def has_room(self, name: str, requests: Amounts) -> bool:
        have, used = self.capacity[name], self.used[name]
        return all(used.get(resource, 0) + units <= have.get(resource, 0) for resource, units in requests.items())

    def _remove(self, key: tuple[str, str]) -> None:
        pod = self.pods.pop(key)
        if pod.node:
            for resource, units in pod.requests.items():
                self.used[pod.node][resource] -= units
        if pod.job in self.jobs and pod.since is not None and pod.role == self.views[pod.job].lead.name:
            status = self._scale(pod.job)
            status["pod_seconds"] = status.get("pod_seconds", 0.0) + self.now - pod.since

    # what the operator does

    def _scale(self, name: str) -> Data:
        job = self.jobs[name]
        kind = "scale_status" if job["kind"] == "TrainingJob" else "scale"
        found: Data = job.setdefault("status", {}).setdefault(kind, {})
        return found

    def _refresh(self, name: str) -> None:
        objects = from_plain([self.jobs[name]])
        assert objects.jobs, objects.invalid
        self._typed[name] = objects.jobs[0]
        self.views[name] = views.view(objects.jobs[0])

    def _apply(self, decision: Decision) -> None:
        name = decision.name
        scale = self._scale(name)
        camel = self.jobs[name]["kind"] != "TrainingJob"
        before = scale.get("target")
        if before != decision.target:
            scale["target"] = decision.target
            if (before or 0) != decision.target:
                scale["lastScaleTime" if camel else "last_scale_time"] = timestamp.text(self.now)
                self.rescales += 1
        self._start_and_stop(name, decision)
        self._refresh(name)

    def _start_and_stop(self, name: str, decision: Decision) -> None:
        view = self.views[name]
        for role in view.roles:
            live = [pod for pod in self.pods.values() if pod.job == name and pod.role == role.name and pod.goes is None]
            wanted = replicas_at(role, decision.target)
            named = dict(decision.leavers.get(role.name, {}))
            order = sorted(live, key=lambda pod: (bool(pod.node), named.get(pod.node, 0) <= 0, -pod.created, pod.name))
            for pod in _leavers(order, len(live) - wanted, named):
                self._stop(pod)
            nodes = [on for on, count in decision.placements.get(role.name, {}).items() for _ in range(count)]
            for number in range(wanted - len(live)):
                self._start(name, role.name, dict(role.template["spec"]), nodes[number] if number < len(nodes) else "")

    def _start(self, job: str, role: str, spec: Data, node: str) -> None:
        self.counter += 1
        metadata = self.jobs[job]["metadata"]
        pod = VirtualPod(
            f"{job}-{role}-{self.counter}", metadata["namespace"], spec, created=self.now, job=job, role=role
        )
        pod.prefers = node
        pod.labels = {"edl.dev/job": job, "edl.dev/role": role}
        kind = self.jobs[job]
        pod.owner = {
            "kind": kind["kind"],
            "apiVersion": kind["apiVersion"],
            "name": job,
            "uid": metadata["uid"],
            "controller": True,
        }
        self.pods[pod.namespace, pod.name] = pod

    def _stop(self, pod: VirtualPod) -> None:
        self.kills += bool(pod.node)
        if pod.node and self.grace > 0:
            pod.goes = self.now + self.grace
            pod.changed()
        else:
            self._remove((pod.namespace, pod.name))

    # what a test asks

    def size(self, name: str) -> int:
        lead = self.views[name].lead.name
        return sum(
            pod.job == name and pod.role == lead and pod.goes is None and bool(pod.node) for pod in self.pods.values()
        )

    def targets(self) -> dict[str, int]:
        return {name: self._scale(name).get("target", 0) for name in sorted(self.jobs)}

    def reasons(self) -> dict[str, str]:
        return {job.name: job.reason for job in self.last.jobs} if self.last is not None else {}

    def total_used(self, resource: str) -> int:
        return sum(used.get(resource, 0) for used in self.used.values())


def _leavers(order: list[VirtualPod], excess: int, named: dict[str, int]) -> list[VirtualPod]:
    """Unbound ones, then as many per node as the plan named, then anyone."""
    first = [pod for pod in order if not pod.node]
    rest: list[VirtualPod] = []
    for pod in order:
        if pod.node and named.get(pod.node, 0) > 0:
            named[pod.node] -= 1
            first.append(pod)
        elif pod.node:
            rest.append(pod)
    return [*first, *rest][: max(0, excess)]
