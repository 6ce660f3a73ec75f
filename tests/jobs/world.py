"""A cluster in a page: enough of an API server, a ReplicaSet controller and kubelets to run looks at a job against.

Everything it does is deterministic, so that a story can be replayed with a crash after any of its writes.
"""

import copy
from collections.abc import Callable
from typing import Any

import jsonpatch
import msgspec

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import Job, Pod, ReplicaSet, Service, StatefulSet, convert
from edl.api.schema.problem import errors
from edl.api.status import JobProgress, MemberChange, RootCause
from edl.jobs.admission import check
from edl.jobs.core.actions import Action, Change, Create, Delete
from edl.jobs.core.grant import Grant
from edl.jobs.core.outcome import Observed, Outcome, Refusal
from edl.jobs.core.pods.pod_builder import PodSettings
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.core.stall import STALLED_AFTER
from edl.jobs.in_force import check_job
from edl.jobs.registry import BY_API_VERSION, JOB_KIND_BY_CRD

TYPES: dict[str, Any] = {kind.KIND: kind for kind in (Pod, ReplicaSet, StatefulSet, Job, Service)}
START = 1_000_000_000.0
Data = dict[str, Any]


class CrashError(Exception):
    """The operator died right after a write."""


def manifest(**spec: Any) -> Data:
    trainer = {"entrypoint": "python train.py", "min-instance": 2, "max-instance": 4} | spec.pop("trainer", {})
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {
            "name": "j",
            "namespace": "ns",
            "uid": "uid-1",
            "generation": 1,
            "creationTimestamp": timestamp.text(START),
        },
        "spec": {"fault_tolerant": True, "master": {}, "pserver": {}, "trainer": trainer} | spec,
    }


class World:
    def __init__(self, job: Data | None = None, *, crash_after: int | None = None) -> None:
        self.job: Data | None = copy.deepcopy(job or manifest())
        self.objects: dict[tuple[str, str], Data] = {}
        kind = BY_API_VERSION[self.job["apiVersion"], self.job["kind"]]
        self.kind = JOB_KIND_BY_CRD[kind.crd_name]
        self.now = START
        self.grant: Grant | None = None
        self.version = 0
        self.writes: list[str] = []
        self.events: list[str] = []
        self.refusals: tuple[Refusal, ...] = ()
        self.settings = PodSettings()
        self.silence: dict[str, float] = {}
        self.idle: float | None = None
        self.state_wait: str | None = None
        self.stalled_after = STALLED_AFTER
        self.progress: JobProgress | None = None
        self.hopeless: RootCause | None = None
        self.change: MemberChange | None = None
        self.secrets = False
        self.made: set[tuple[str, str]] = set()
        self.crash_after = crash_after
        self._uids = 0

    # The operator's side.

    def reconcile(self) -> Outcome:
        assert self.job is not None
        checked = check_job(self.job)
        assert isinstance(checked.object, self.kind.type), checked.problems
        warnings = tuple(problem for problem in checked.problems if problem.severity == "warning")
        pods = [self._typed(key) for key in sorted(self.objects) if key[0] == "Pod" and self._has_uid(key)]
        objects = {key: self._typed(key) for key in self.objects if key[0] in TYPES and key[0] != "Pod"}
        self.made |= {key for key in self.objects if key[0] == "Secret"}
        taken = frozenset(name for kind, name in self.objects if kind == "Pod" and not self._has_uid((kind, name)))
        observed = Observed(
            pods,
            objects,
            frozenset(self.made),
            taken,
            self.refusals,
            message_time=START,
            idle=self.idle,
            state_wait=self.state_wait,
            silence=self.silence,
            hopeless=self.hopeless,
            change=self.change,
            progress=self.progress,
        )
        token = "token" if self.secrets else ""
        request = ReconcileRequest(
            job=checked.object,
            observed=observed,
            grant=self.grant,
            settings=self.settings,
            now=self.now,
            warnings=warnings,
            refused_edits=tuple(errors(checked.problems)),
            token=token,
            ca="ca",
            companions=tuple(check(body).object for (kind, _), body in self.objects.items() if kind == "JobResource"),
            stalled_after=self.stalled_after,
        )
        outcome = self.kind.reconcile(request)
        assert not list(outcome.validate())
        return outcome

    def step(self) -> bool:
        """One look and its writes. False if there was nothing to do."""
        outcome = self.reconcile()
        before = len(self.writes)
        status = msgspec.to_builtins(outcome.status, order="deterministic")
        assert self.job is not None
        if status != self.job.get("status", {}):
            self.job["status"] = status
            self.events += [f"{event.reason}: {event.message}" for event in outcome.events]
            self._wrote("status")
        for action in outcome.actions + outcome.soft:
            self._carry_out(action)
        return len(self.writes) > before

    def settle(self, limit: int = 30) -> None:
        for _ in range(limit):
            if self.job is None or not self.step():
                return
            self._run_replica_sets()
        raise AssertionError(f"not settled after {limit} looks: {self.writes[-20:]}")

    def _carry_out(self, action: Action) -> None:
        key = (action.kind, action.name)
        if action.kind == "Secret" and key in self.objects:
            return  # it is not watched; the API server says that it exists, and it is ours
        if isinstance(action, Create):
            assert key not in self.objects, f"{key} was created twice"
            self.put(action.kind, copy.deepcopy(action.body))
        elif isinstance(action, Delete):
            self._delete(key, action.uid)
        else:
            self._change(key, action)
        self._wrote(f"{type(action).__name__} {action.kind}/{action.name}")

    def _change(self, key: tuple[str, str], action: Change) -> None:
        old = self.objects[key]
        assert old["metadata"]["resourceVersion"] == action.version
        new = jsonpatch.apply_patch(old, list(action.patch))
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        self._store(key, new)

    def _delete(self, key: tuple[str, str], uid: str) -> None:
        if key[0] == self.kind.name:
            assert self.job is not None
            assert self.job["metadata"]["uid"] == uid
            self.job = None
        elif key in self.objects and self.objects[key]["metadata"]["uid"] == uid:
            if key[0] != "Pod":  # only pods take their time
                del self.objects[key]
                self.version += 1
                return
            self.objects[key]["metadata"].setdefault("deletionTimestamp", timestamp.text(self.now + 30))
            self._store(key, self.objects[key])

    def _wrote(self, what: str) -> None:
        self.writes.append(what)
        if self.crash_after == len(self.writes):
            raise CrashError

    # The cluster's side.

    def put(self, kind: str, body: Data) -> None:
        self._uids += 1
        defaults = {"uid": f"u{self._uids}", "generation": 1, "creationTimestamp": timestamp.text(self.now)}
        body["metadata"] = defaults | body["metadata"]
        self._store((kind, body["metadata"]["name"]), body)

    def names(self, kind: str) -> list[str]:
        return sorted(name for found, name in self.objects if found == kind)

    def pods(self, role: str = "trainer") -> list[str]:
        """Live ones."""
        return [
            name
            for name in self.names("Pod")
            if self.objects["Pod", name]["metadata"]["labels"].get("edl.dev/role") == role
            and not self.objects["Pod", name]["metadata"].get("deletionTimestamp")
            and self.objects["Pod", name].get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def run(self, name: str) -> None:
        started = {"startedAt": timestamp.text(self.now)}
        self.set_status(name, "Running", {"running": started}, ready=True)

    def end(self, name: str, code: int, reason: str = "", message: str = "") -> None:
        ended = {
            "exitCode": code,
            "reason": reason or ("Error" if code else "Completed"),
            "message": message,
            "finishedAt": timestamp.text(self.now),
        }
        self.set_status(name, "Failed" if code else "Succeeded", {"terminated": ended})

    def set_status(self, name: str, phase: str, state: Data, *, ready: bool = False, **more: Any) -> None:
        pod = self.objects["Pod", name]
        container = pod["spec"]["containers"][0]["name"]
        old = pod.get("status", {})
        pod["status"] = {
            "phase": phase,
            "startTime": old.get("startTime", timestamp.text(self.now)),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"name": container, "state": state}],
            **more,
        }
        pod["spec"]["nodeName"] = pod["spec"].get("nodeName", "n1")
        self._store(("Pod", name), pod)

    def lose(self, name: str) -> None:
        """Gone without a trace, as a pod deleted by force."""
        del self.objects["Pod", name]
        self.version += 1

    def collect(self) -> None:
        """What belongs to something that is gone goes, too."""
        uids = {body["metadata"]["uid"] for body in self.objects.values()} | {"uid-1"}
        for key, body in list(self.objects.items()):
            owners = body["metadata"].get("ownerReferences")
            if owners and not any(owner["uid"] in uids for owner in owners):
                self._delete(key, body["metadata"]["uid"])

    def run_all(self) -> None:
        self.collect()
        for name in self.names("Pod"):
            pod = self.objects["Pod", name]
            if pod["metadata"].get("deletionTimestamp"):
                self.lose(name)
            elif not pod.get("status"):
                self.run(name)

    def live(self) -> None:
        """Until nothing moves any more."""
        for _ in range(10):
            self.settle()
            before = self.version
            self.run_all()
            if self.version == before:
                return
        raise AssertionError("the cluster does not come to rest")

    def environment(self, pod: str) -> dict[str, Any]:
        """What the first container of a pod is told, as a node would read it."""
        container = self.objects["Pod", pod]["spec"]["containers"][0]
        told: dict[str, Any] = {}
        for source in container.get("envFrom") or ():
            told |= self.objects["Secret", source["secretRef"]["name"]]["stringData"]
        return told | {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}

    def replicas(self, kind: str, role: str) -> int:
        spec = self.objects[kind, f"j-{role}"]["spec"]
        size: int = spec["parallelism" if kind == "Job" else "replicas"]
        return size

    @property
    def status(self) -> Data:
        assert self.job is not None
        found: Data = self.job.get("status", {})
        return found

    def condition(self, kind: str) -> Data | None:
        return next((one for one in self.status.get("conditions", ()) if one["type"] == kind), None)

    def edit(self, change: Callable[[Data], object]) -> None:
        assert self.job is not None
        change(self.job["spec"])
        self.job["metadata"]["generation"] += 1

    def _run_replica_sets(self) -> None:
        for kind, name in sorted(self.objects):
            if kind in ("ReplicaSet", "StatefulSet") and "template" in self.objects[kind, name]["spec"]:
                self._run_set(self.objects[kind, name])

    def _run_set(self, replica_set: Data) -> None:
        role, name = replica_set["metadata"]["labels"]["edl.dev/role"], replica_set["metadata"]["name"]
        wanted, have = replica_set["spec"]["replicas"], self.pods(role)
        for index in range(len(have), wanted):
            template = copy.deepcopy(replica_set["spec"]["template"])
            template["metadata"]["name"] = f"{name}-x{self._uids}{index}"
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
            template["metadata"]["ownerReferences"] = [{**owner, "uid": replica_set["metadata"]["uid"]}]
            self.put("Pod", template)
        for extra in have[wanted:]:
            del self.objects["Pod", extra]

    def _has_uid(self, key: tuple[str, str]) -> bool:
        labels = self.objects[key]["metadata"].get("labels", {})
        return bool(labels.get("edl.dev/job-uid") == "uid-1")

    def _typed(self, key: tuple[str, str]) -> Any:
        return convert(self.objects[key], TYPES[key[0]])

    def _store(self, key: tuple[str, str], body: Data) -> None:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = body
