"""Keeps all pods of the cluster counted: by job, by node; those that are pending, and those that terminate.

A pod is counted when it comes and taken out when it goes or changes, so a cycle costs what has changed. Sums are never
adjusted: a job or a node with a changed pod is counted anew from its own pods.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

from edl.scheduler.placement.node_match import planned_nodes
from edl.scheduler.placement.resources import Axes, Vector
from edl.scheduler.snapshot.ownership import JobKey, JobNames, Owner, Owners
from edl.scheduler.snapshot.pod_facts import PodFacts
from edl.scheduler.snapshot.types import NOWHERE, UnboundPod

Pods = dict[int, PodFacts]
"""By the identity of the facts."""


class ClusterUsage:
    def __init__(self) -> None:
        self.pending: Pods = {}
        """Pods of others without a node."""
        self.terminating: Pods = {}
        self.repelling: Pods = {}
        """Pods on nodes, known or not, that keep others away."""
        self.changed_jobs: set[JobKey] = set()
        """Whose pods have changed since this was cleared; `changed_nodes`: the same, by name."""
        self.changed_nodes: set[str] = set()
        self._by_job: dict[JobKey, Pods] = {}
        self._by_node: dict[str, Pods] = {}
        self._by_controller: dict[str, Pods] = {}
        self._foreign: Pods = {}
        self._bound_foreign: frozenset[str] | None = None
        self._owners = Owners(JobNames())

    def of_job(self, job: JobKey) -> Iterable[PodFacts]:
        return self._by_job.get(job, {}).values()

    def on_node(self, name: str) -> Iterable[PodFacts]:
        return self._by_node.get(name, {}).values()

    def take(self, owners: Owners) -> None:
        """Pods go to the jobs that own them now."""
        before, self._owners = self._owners, owners
        if owners is before:
            return
        for controller, pods in self._by_controller.items():
            if not owners.judges_alike(before, controller):
                moved = [(pod, owner) for pod in pods.values() if (owner := owner_of(pod, owners)) != pod.owner]
                for pod, owner in moved:
                    self._uncount(pod)
                    self._count(pod, owner)

    def add(self, pod: PodFacts) -> None:
        self._by_controller.setdefault(pod.controller, {})[id(pod)] = pod
        self._count(pod, owner_of(pod, self._owners))

    def remove(self, pod: PodFacts) -> None:
        self._uncount(pod)
        _drop(self._by_controller, pod.controller, pod)

    def _count(self, pod: PodFacts, owner: Owner) -> None:
        number = id(pod)
        pod.owner = owner
        if isinstance(owner, tuple):
            self._by_job.setdefault(owner, {})[number] = pod
            self.changed_jobs.add(owner)
        if pod.finished:
            return
        if pod.node:
            self._by_node.setdefault(pod.node, {})[number] = pod
            self.changed_nodes.add(pod.node)
            if pod.has_anti_affinity:
                self.repelling[number] = pod
        if pod.leaving_until is not None:
            self.terminating[number] = pod
        if isinstance(owner, tuple):
            return
        if pod.node:
            self._foreign[number] = pod
            self._bound_foreign = None
        elif owner is None and pod.leaving_until is None and not pod.gated:
            self.pending[number] = pod

    def _uncount(self, pod: PodFacts) -> None:
        number, owner = id(pod), pod.owner
        if isinstance(owner, tuple):
            _drop(self._by_job, owner, pod)
            self.changed_jobs.add(owner)
        if pod.node and not pod.finished:
            _drop(self._by_node, pod.node, pod)
            self.changed_nodes.add(pod.node)
        for pods in (self.repelling, self.terminating, self.pending):
            pods.pop(number, None)
        if self._foreign.pop(number, None) is not None:
            self._bound_foreign = None

    def bound_foreign(self) -> frozenset[str]:
        """Uids of pods of others that have a node."""
        if self._bound_foreign is None:
            self._bound_foreign = frozenset([pod.pod.metadata.uid for pod in self._foreign.values()])
        return self._bound_foreign


class NodeUsage:
    """Per node, in the order of the nodes: what the pods there request, and their limits of CPU and memory."""

    def __init__(self, usage: ClusterUsage, names: Sequence[str], axes: Axes) -> None:
        self.names, self.axes = names, axes
        self.positions = {name: position for position, name in enumerate(names)}
        self.used: list[Vector] = [()] * len(names)
        self._cpu, self._memory = [0] * len(names), [0] * len(names)
        self._usage = usage
        self.recount(names)

    def recount(self, names: Iterable[str]) -> list[int]:
        """Of nodes whose pods have changed; the positions of those that are known."""
        changed = [position for name in names if (position := self.positions.get(name)) is not None]
        for position in changed:
            self._recount(position, self._usage.on_node(self.names[position]))
        return changed

    def _recount(self, position: int, pods: Iterable[PodFacts]) -> None:
        row = [0] * len(self.axes.names)
        cpu = memory = 0
        for pod in pods:
            vector = pod.vector
            if not vector:
                vector = pod.vector = self.axes.vector(pod.requests)
            for axis, units in enumerate(vector):
                if units:
                    row[axis] += units
            cpu += pod.cpu_limit
            memory += pod.memory_limit
        self.used[position] = tuple(row)
        self._cpu[position], self._memory[position] = cpu, memory

    def committed(self, usable: Sequence[bool]) -> tuple[int, int]:
        """CPU and memory limits on usable nodes."""
        return sum(compress(self._cpu, usable)), sum(compress(self._memory, usable))

    def pods(self) -> Iterator[tuple[PodFacts, int]]:
        """All pods on nodes, with the position of their node."""
        return ((pod, position) for position, name in enumerate(self.names) for pod in self._usage.on_node(name))


def owner_of(pod: PodFacts, owners: Owners) -> Owner:
    metadata = pod.pod.metadata
    known = owners.by_uid.get(pod.controller)
    return known if known is not None and known[0] == metadata.namespace else owners.of(metadata)


def unbound_pods(
    pods: Sequence[PodFacts], bound: Mapping[int, int], positions: Mapping[str, int]
) -> tuple[UnboundPod, ...]:
    """Of one role. Pods made from one template share its nodes: each gets one that no other of them has."""
    taken = dict(bound)
    found = []
    for pod in pods:
        nodes = [positions.get(name, NOWHERE) for name in planned_nodes(pod.pod.spec)]
        hint = nodes[0] if nodes else NOWHERE
        if len(nodes) > 1:
            hint = _first_untaken(nodes, taken)
            taken[hint] = taken.get(hint, 0) + 1
        found.append(UnboundPod(hint=hint, refused_since=pod.refused_since))
    return tuple(found)


def _first_untaken(nodes: Sequence[int], taken: Mapping[int, int]) -> int:
    return next((node for node in nodes if taken.get(node, 0) < nodes.count(node)), nodes[0])


def _drop(groups: dict[JobKey, Pods] | dict[str, Pods], key: JobKey | str, pod: PodFacts) -> None:
    pods = groups[key]  # type: ignore[index]  # the key is of the kind that the groups have
    del pods[id(pod)]
    if not pods:
        del groups[key]  # type: ignore[arg-type]  # as above
