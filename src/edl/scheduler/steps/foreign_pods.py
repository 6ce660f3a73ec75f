"""Serves pods of others ("online services") first: they are never touched, and training shrinks for them at once.

Capacity is reclaimed for a pending pod that kube-scheduler has refused, from jobs whose pods are not more important
than it, in one cycle and no more than it needs. If that does not help, it is not repeated soon: if the pod is not
bound 30 s later although it would fit, its owner backs off for a growing time (decision 23).
"""

import math
from functools import partial

import msgspec

from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import Backoff, Served, strike
from edl.scheduler.reasons.codes import Code
from edl.scheduler.reasons.shortage import capacity_message, request_text
from edl.scheduler.settings import BOUND_WITHIN, FOREIGN_BACKOFF, FOREIGN_BACKOFF_MAX, FREED_WITHIN
from edl.scheduler.snapshot.types import NOWHERE, ForeignPod, Shape
from edl.scheduler.steps.reclaim import Reclaimer
from edl.scheduler.unit import Unit

_SHORT_PAUSE = 5.0  # seconds; pauses below this are all the same


class ForeignOutcome(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    placed: bool
    reason: str
    node: str = ""


class ForeignService:
    """Serves in two turns: `reserve` before jobs hold what they have, `reclaim` after that."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.outcomes: dict[str, ForeignOutcome] = {}
        self.unplaced: list[ForeignPod] = []

    def reserve(self) -> None:
        """Reserves what is free, or about to be, for those that fit into it, before anyone else."""
        cycle = self.cycle
        if not cycle.snapshot.foreign and not cycle.memory.owners:
            return
        self._review_earlier_service()
        for pod in sorted(cycle.snapshot.foreign, key=_importance):
            backoff = cycle.owners.get(pod.owner)
            if backoff is not None and cycle.now < backoff.until:
                self._report(
                    pod, f"was not bound when it had room; room is made again in {backoff.until - cycle.now:.0f} s"
                )
            elif not self._fits(pod):
                self.unplaced.append(pod)

    def _fits(self, pod: ForeignPod) -> bool:
        cluster = self.cycle.cluster
        for now in (True, False):
            node = cluster.find(pod.shape, now=now)
            if node != NOWHERE:
                cluster.adjust(node, pod.shape, (), -1 if now else 0, -1)
                self._report(pod, "fits" if now else "fits when what leaves has left", node)
                return True
        return False

    def _review_earlier_service(self) -> None:
        """The owner of a pod that was served, would fit and is still pending backs off."""
        cycle, now = self.cycle, self.cycle.now
        for owner, known in cycle.memory.owners.items():
            if now < known.until + FOREIGN_BACKOFF_MAX:
                cycle.owners[owner] = known
        for uid, served in cycle.memory.served.items():
            if uid in cycle.snapshot.bound_foreign:
                cycle.owners.pop(served.owner, None)  # it helped
        for pod in cycle.snapshot.foreign:
            earlier = cycle.memory.served.get(pod.uid)
            if earlier is None:
                continue
            waited = now - earlier.at
            fits_now = waited >= BOUND_WITHIN and cycle.cluster.find(pod.shape, now=True) != NOWHERE
            if fits_now or waited >= FREED_WITHIN:
                self._strike(pod.owner)
            else:
                cycle.served[pod.uid] = earlier

    def _strike(self, owner: str) -> None:
        cycle = self.cycle
        known: Backoff | None = cycle.owners.get(owner)
        if known is None or cycle.now >= known.until:
            cycle.owners[owner] = strike(known, cycle.now, FOREIGN_BACKOFF, FOREIGN_BACKOFF_MAX)

    def reclaim(self) -> None:
        if not self.unplaced:
            return
        cycle = self.cycle
        reclaimer = Reclaimer(cycle.cluster, cycle.units, cycle.policy, tier=_expense)
        hopeless: set[tuple[int, int]] = set()
        cycle.messages.clear()
        waiting: dict[int, int] = {}
        for pod in self.unplaced:
            waiting[pod.shape.index] = waiting.get(pod.shape.index, 0) + 1
        for pod in self.unplaced:
            if not self._serve(pod, reclaimer, hopeless, waiting):
                hopeless.add((pod.shape.index, pod.shape.priority))
            waiting[pod.shape.index] -= 1

    def _serve(
        self, pod: ForeignPod, reclaimer: Reclaimer, hopeless: set[tuple[int, int]], waiting: dict[int, int]
    ) -> bool:
        cycle, cluster, shape = self.cycle, self.cycle.cluster, pod.shape
        if not pod.refused:
            self._report(pod, "has no room yet; kube-scheduler has not judged it")
            return True
        node = cluster.find(shape, now=False)
        if node == NOWHERE and (shape.index, shape.priority) not in hopeless:
            node, donors = reclaimer.reclaim(shape, partial(_may_displace, shape), None, waiting[shape.index])
            for unit in donors:
                unit.note_shrink(Code.MADE_ROOM, f"{pod.namespace}/{pod.name} ({request_text(cycle, shape)})")
        if node == NOWHERE:
            self._report(pod, f"no elastic job can make room for it: {capacity_message(cycle, shape, 'pod')}")
            return False
        cluster.adjust(node, shape, (), 0, -1)
        cycle.served[pod.uid] = Served(owner=pod.owner, at=cycle.now)
        self._report(pod, "room is made for it", node)
        return True

    def in_order(self) -> tuple[ForeignOutcome, ...]:
        return tuple(sorted(self.outcomes.values(), key=lambda outcome: (outcome.namespace, outcome.name)))

    def _report(self, pod: ForeignPod, message: str, node: int = NOWHERE) -> None:
        name = self.cycle.cluster.name(node)
        suffix = f" on {name}" if name else ""
        self.outcomes[pod.uid or f"{pod.namespace}/{pod.name}"] = ForeignOutcome(
            pod.namespace, pod.name, node != NOWHERE, message + suffix, name
        )


def _may_displace(shape: Shape, unit: Unit) -> bool:
    """Only pods that are not more important than it, by Kubernetes' own priority, leave for a pod."""
    return unit.role is not None and unit.role.shape.priority <= shape.priority


def _importance(pod: ForeignPod) -> tuple[int, float, str, str]:
    return -pod.shape.priority, pod.created, pod.namespace, pod.name


def _expense(unit: Unit) -> tuple[int, int]:
    """Lower priority first; then shorter pauses, by their order of magnitude."""
    return unit.priority, int(math.log2(1 + (unit.facts.rescale_seconds or 0.0) / _SHORT_PAUSE))
