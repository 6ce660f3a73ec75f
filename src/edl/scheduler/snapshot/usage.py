"""Counts all pods in one pass: by job and role, by node; those that are pending, and those that terminate."""

from collections.abc import Mapping, Sequence

from edl.scheduler.placement.node_match import node_match_of, planned_nodes
from edl.scheduler.placement.pod_affinity import PodAffinity, pods_of
from edl.scheduler.placement.quota import QuotaLedger
from edl.scheduler.placement.resources import Amounts, Axes
from edl.scheduler.snapshot.job_terms import NamespaceTerms, RoleIndex
from edl.scheduler.snapshot.ownership import Owners
from edl.scheduler.snapshot.pod_facts import PodFacts, moment
from edl.scheduler.snapshot.shapes import Catalog
from edl.scheduler.snapshot.types import NOWHERE, ForeignPod, TerminatingPod, UnboundPod


class JobUsage:
    """The pods of one job, by role."""

    __slots__ = ("bound", "done", "live", "running", "smallest", "started_sum", "unbound")

    def __init__(self, roles: int) -> None:
        self.bound: list[dict[int, int]] = [{} for _ in range(roles)]
        self.live = [0] * roles
        self.unbound: list[list[PodFacts]] = []  # per role, once there is one
        self.smallest: dict[int, Amounts] = {}
        self.done = 0
        self.running = 0
        self.started_sum = 0

    def same(self, other: "JobUsage") -> bool:
        return (
            self.bound == other.bound
            and self.started_sum == other.started_sum
            and self.running == other.running
            and self.done == other.done
            and self.unbound == other.unbound
            and self.smallest == other.smallest
        )


class ClusterUsage:
    def __init__(
        self, pods: Sequence[PodFacts], owners: Owners, role_indexes: Sequence[RoleIndex], nodes: Sequence[str]
    ) -> None:
        self.node_positions = {name: position for position, name in enumerate(nodes)}
        self.by_job: dict[int, JobUsage] = {}
        self.live_of_invalid: dict[int, int] = {}
        """Live pods of jobs that do not validate."""
        self.pending: list[PodFacts] = []
        self.bound_foreign: list[str] = []
        self._terminating: list[PodFacts] = []
        self.on_nodes: list[PodFacts] = []
        """Pods that are on a node; `nodes` has their nodes in the same order."""
        self.nodes: list[int] = []
        self._owners, self._role_indexes = owners, role_indexes
        self._count_pods(pods)

    def _count_pods(self, pods: Sequence[PodFacts]) -> None:
        """Every pod of the cluster goes through this loop in every cycle: kept tight."""
        by_uid, jobs, node_positions = self._owners.by_uid, self._owners.jobs, self.node_positions
        on_nodes, nodes = self.on_nodes, self.nodes
        for pod in pods:
            known = by_uid.get(pod.controller)
            owner: int | str | None = known
            if known is None or jobs[known].namespace != pod.pod.metadata.namespace:
                owner = self._owners.of(pod.pod.metadata)
            if pod.finished:
                if isinstance(owner, int) and pod.succeeded and pod.leaving_until is None:
                    self._count_done(owner, pod)
                continue
            node = NOWHERE
            if pod.node:
                node = node_positions.get(pod.node, NOWHERE)
                if node != NOWHERE:
                    on_nodes.append(pod)
                    nodes.append(node)
            if pod.leaving_until is not None:
                self._terminating.append(pod)
            if isinstance(owner, int):
                self._count_live(owner, pod, node)
            elif pod.node:
                self.bound_foreign.append(pod.pod.metadata.uid)
            elif owner is None and pod.leaving_until is None and not pod.gated:
                self.pending.append(pod)

    def _of_job(self, job: int) -> JobUsage:
        job_usage = self.by_job.get(job)
        if job_usage is None:
            job_usage = self.by_job[job] = JobUsage(len(self._role_indexes[job].requests))
        return job_usage

    def _count_done(self, job: int, pod: PodFacts) -> None:
        role_index = self._role_indexes[job]
        if role_index.requests and role_index.roles.get(pod.role, role_index.lead) == role_index.lead:
            self._of_job(job).done += 1

    def _count_live(self, job: int, pod: PodFacts, node: int) -> None:
        role_index = self._role_indexes[job]
        if not role_index.requests:
            self.live_of_invalid[job] = self.live_of_invalid.get(job, 0) + (pod.leaving_until is None)
            return
        role, job_usage = role_index.roles.get(pod.role, role_index.lead), self._of_job(job)
        if role == role_index.lead and pod.running_since is not None:
            job_usage.running += 1
            job_usage.started_sum += pod.running_since
        if pod.leaving_until is not None:
            return
        if not pod.node:
            job_usage.unbound = job_usage.unbound or [[] for _ in role_index.requests]
            job_usage.unbound[role].append(pod)
            return
        bound = job_usage.bound[role]
        bound[node] = bound.get(node, 0) + 1
        job_usage.live[role] += 1
        if pod.requests != role_index.requests[role]:
            known = job_usage.smallest.get(role, pod.requests)
            job_usage.smallest[role] = {name: min(units, known.get(name, 0)) for name, units in pod.requests.items()}

    def used(self, axes: Axes) -> list[list[int]]:
        """Per node, by requests."""
        rows = [[0] * len(axes.names) for _ in self.node_positions]
        rarer = range(3, len(axes.names))  # CPU, memory and pods come first and are asked for by nearly all
        for pod, node in zip(self.on_nodes, self.nodes, strict=True):
            vector = pod.vector
            if not vector:
                vector = pod.vector = axes.vector(pod.requests)
            row = rows[node]
            row[0] += vector[0]
            row[1] += vector[1]
            row[2] += vector[2]
            for axis in rarer:
                if vector[axis]:
                    row[axis] += vector[axis]
        return rows

    def committed(self, usable: Sequence[bool]) -> tuple[int, int]:
        """CPU and memory limits on usable nodes."""
        if all(usable):
            return sum([pod.cpu_limit for pod in self.on_nodes]), sum([pod.memory_limit for pod in self.on_nodes])
        there = [pod for pod, node in zip(self.on_nodes, self.nodes, strict=True) if usable[node]]
        return sum([pod.cpu_limit for pod in there]), sum([pod.memory_limit for pod in there])

    def terminating(self, axes: Axes, ledger: QuotaLedger) -> tuple[TerminatingPod, ...]:
        return tuple(
            TerminatingPod(
                node=self.node_positions.get(pod.node, NOWHERE) if pod.node else NOWHERE,
                requests=axes.vector(pod.requests),
                limits=(pod.cpu_limit, pod.memory_limit),
                until=pod.leaving_until or 0.0,
                charges=ledger.of_pod(pod),
            )
            for pod in self._terminating
        )

    def unbound_pods(self, pods: Sequence[PodFacts], bound: Mapping[int, int]) -> tuple[UnboundPod, ...]:
        """Of one role. Pods made from one template share its nodes: each gets one that no other of them has."""
        taken = dict(bound)
        found = []
        for pod in pods:
            nodes = [self.node_positions.get(name, NOWHERE) for name in planned_nodes(pod.pod.spec)]
            hint = nodes[0] if nodes else NOWHERE
            if len(nodes) > 1:
                hint = _first_untaken(nodes, taken)
                taken[hint] = taken.get(hint, 0) + 1
            found.append(UnboundPod(hint=hint, refused_since=pod.refused_since))
        return tuple(found)

    def foreign(
        self, catalog: Catalog, affinity: PodAffinity | None, namespace_terms: NamespaceTerms
    ) -> tuple[ForeignPod, ...]:
        """Pending pods of others, by name."""
        found = []
        for pod in self.pending:
            spec, metadata = pod.pod.spec, pod.pod.metadata
            pods = pods_of(spec, metadata.namespace, metadata.labels, namespace_terms.labels)
            rules = affinity.rules(pods) if affinity is not None else ()
            counted = affinity.counted(pods) if affinity is not None else ()
            limits = pod.cpu_limit, pod.memory_limit
            priority = namespace_terms.pod_priority(spec)
            found.append(
                ForeignPod(
                    namespace=metadata.namespace,
                    name=metadata.name,
                    uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
                    owner=pod.controller or metadata.uid or f"{metadata.namespace}/{metadata.name}",
                    shape=catalog.shape(pod.requests, limits, node_match_of(spec), priority, rules, counted),
                    created=moment(metadata.creation_timestamp),
                    refused=pod.refused_since is not None,
                )
            )
        return tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name)))


def _first_untaken(nodes: Sequence[int], taken: Mapping[int, int]) -> int:
    return next((node for node in nodes if taken.get(node, 0) < nodes.count(node)), nodes[0])
