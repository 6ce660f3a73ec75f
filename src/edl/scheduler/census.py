"""One pass over all pods: who belongs to which job, what occupies which node, who waits, who leaves."""

from collections.abc import Sequence

from edl.scheduler.catalog import Catalog
from edl.scheduler.facts import NOWHERE, ForeignPod, Leaving, Unbound
from edl.scheduler.ledger import Ledger
from edl.scheduler.nearness import Nearness, pods_of
from edl.scheduler.owners import Owners
from edl.scheduler.podfacts import PodFacts, moment
from edl.scheduler.resources import Amounts, Axes
from edl.scheduler.terms import Country, Crew
from edl.scheduler.where import planned_node, where_of


class Tally:
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

    def same(self, other: "Tally") -> bool:
        return (
            self.bound == other.bound
            and self.started_sum == other.started_sum
            and self.running == other.running
            and self.done == other.done
            and self.unbound == other.unbound
            and self.smallest == other.smallest
        )


class Census:
    def __init__(self, pods: Sequence[PodFacts], owners: Owners, crews: Sequence[Crew], nodes: Sequence[str]) -> None:
        self.places = {name: place for place, name in enumerate(nodes)}
        self.tallies: dict[int, Tally] = {}
        self.heads: dict[int, int] = {}
        """Live pods of jobs that do not validate."""
        self.pending: list[PodFacts] = []
        self.settled: list[str] = []
        self.gone: list[PodFacts] = []
        self.here: list[PodFacts] = []
        """Those on a node, and in step with them the nodes."""
        self.nodes: list[int] = []
        self._owners, self._crews = owners, crews
        self._go_round(pods)

    def _go_round(self, pods: Sequence[PodFacts]) -> None:
        """The loop that every pod of the cluster goes through in every cycle: kept tight."""
        by_uid, places = self._owners.by_uid, self.places
        here, nodes = self.here, self.nodes
        for pod in pods:
            whose: int | str | None = by_uid.get(pod.controller)
            if whose is None:
                whose = self._owners.of(pod.pod.metadata)
            if pod.finished:
                if isinstance(whose, int) and pod.succeeded and pod.leaving_until is None:
                    self._note_done(whose, pod)
                continue
            node = NOWHERE
            if pod.node:
                node = places.get(pod.node, NOWHERE)
                if node != NOWHERE:
                    here.append(pod)
                    nodes.append(node)
            if pod.leaving_until is not None:
                self.gone.append(pod)
            if isinstance(whose, int):
                self._enter(whose, pod, node)
            elif pod.node:
                self.settled.append(pod.pod.metadata.uid)
            elif whose is None and pod.leaving_until is None and not pod.gated:
                self.pending.append(pod)

    def _tally(self, job: int) -> Tally:
        tally = self.tallies.get(job)
        if tally is None:
            tally = self.tallies[job] = Tally(len(self._crews[job].requests))
        return tally

    def _note_done(self, job: int, pod: PodFacts) -> None:
        crew = self._crews[job]
        if crew.requests and crew.roles.get(pod.role, crew.lead) == crew.lead:
            self._tally(job).done += 1

    def _enter(self, job: int, pod: PodFacts, node: int) -> None:
        crew = self._crews[job]
        if not crew.requests:
            self.heads[job] = self.heads.get(job, 0) + (pod.leaving_until is None)
            return
        role, tally = crew.roles.get(pod.role, crew.lead), self._tally(job)
        if role == crew.lead and pod.running_since is not None:
            tally.running += 1
            tally.started_sum += pod.running_since
        if pod.leaving_until is not None:
            return
        if not pod.node:
            tally.unbound = tally.unbound or [[] for _ in crew.requests]
            tally.unbound[role].append(pod)
            return
        bound = tally.bound[role]
        bound[node] = bound.get(node, 0) + 1
        tally.live[role] += 1
        if pod.requests != crew.requests[role]:
            known = tally.smallest.get(role, pod.requests)
            tally.smallest[role] = {name: min(units, known.get(name, 0)) for name, units in pod.requests.items()}

    def used(self, axes: Axes) -> list[list[int]]:
        """Per node, by requests."""
        rows = [[0] * len(axes.names) for _ in self.places]
        rarer = range(3, len(axes.names))  # CPU, memory and pods come first and are asked for by nearly all
        for pod, node in zip(self.here, self.nodes, strict=True):
            vector = pod.vector
            if not vector:
                vector = pod.vector = axes.vector(pod.requests)
            row = rows[node]
            row[0] += vector[0]
            row[1] += vector[1]
            row[2] += vector[2]
            for place in rarer:
                if vector[place]:
                    row[place] += vector[place]
        return rows

    def committed(self, usable: Sequence[bool]) -> tuple[int, int]:
        """CPU and memory limits on usable nodes."""
        if all(usable):
            return sum([pod.cpu_limit for pod in self.here]), sum([pod.memory_limit for pod in self.here])
        there = [pod for pod, node in zip(self.here, self.nodes, strict=True) if usable[node]]
        return sum([pod.cpu_limit for pod in there]), sum([pod.memory_limit for pod in there])

    def leaving(self, axes: Axes, ledger: Ledger) -> tuple[Leaving, ...]:
        return tuple(
            Leaving(
                node=self.places.get(pod.node, NOWHERE) if pod.node else NOWHERE,
                requests=axes.vector(pod.requests),
                limits=(pod.cpu_limit, pod.memory_limit),
                until=pod.leaving_until or 0.0,
                taxes=ledger.of_pod(pod),
            )
            for pod in self.gone
        )

    def hint(self, pod: PodFacts) -> Unbound:
        return Unbound(hint=self.places.get(planned_node(pod.pod.spec), NOWHERE), refused_since=pod.refused_since)

    def foreign(self, catalog: Catalog, nearness: Nearness | None, country: Country) -> tuple[ForeignPod, ...]:
        """Pending pods of others, by name."""
        found = []
        for pod in self.pending:
            spec, metadata = pod.pod.spec, pod.pod.metadata
            pods = pods_of(spec, metadata.namespace, metadata.labels, country.labels)
            rules = nearness.rules(pods) if nearness is not None else ()
            counted = nearness.counted(pods) if nearness is not None else ()
            limits = pod.cpu_limit, pod.memory_limit
            priority = country.pod_priority(spec)
            found.append(
                ForeignPod(
                    namespace=metadata.namespace,
                    name=metadata.name,
                    uid=metadata.uid or f"{metadata.namespace}/{metadata.name}",
                    owner=pod.controller or metadata.uid or f"{metadata.namespace}/{metadata.name}",
                    shape=catalog.shape(pod.requests, limits, where_of(spec), priority, rules, counted),
                    created=moment(metadata.creation_timestamp),
                    refused=pod.refused_since is not None,
                )
            )
        return tuple(sorted(found, key=lambda pod: (pod.namespace, pod.name)))
