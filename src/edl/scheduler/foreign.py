"""Pods of others ("online services") come first: they are never touched, and training makes room for them at once.

Room is made for a pending pod that kube-scheduler has refused, from jobs whose pods are not more important than it,
in one cycle and no more than it needs. Room that does not help is not made again soon: if the pod is not bound 30 s
later although it would fit, its owner is left alone for a growing time (decision 23).
"""

import math
from functools import partial

import msgspec

from edl.scheduler.cycle import Cycle
from edl.scheduler.facts import NOWHERE, ForeignPod, Shape
from edl.scheduler.memory import Backoff, Served, strike
from edl.scheduler.missing import needs_in_words, room_in_words
from edl.scheduler.reasons import Code
from edl.scheduler.room import Donors
from edl.scheduler.settings import BOUND_WITHIN, FOREIGN_BACKOFF, FOREIGN_BACKOFF_MAX, ROOM_WITHIN
from edl.scheduler.unit import Unit

_SHORT_PAUSE = 5.0  # seconds; pauses below this are all the same


class ForeignOutcome(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    placed: bool
    reason: str
    node: str = ""


class ForeignService:
    """Serves in two turns: what fits anyway before jobs are settled, and who must be made room for after that."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.outcomes: dict[str, ForeignOutcome] = {}
        self.unplaced: list[ForeignPod] = []

    def reserve(self) -> None:
        """Their requests come first: what is free, or about to be, is theirs before anyone else's."""
        cycle = self.cycle
        if not cycle.snapshot.foreign and not cycle.memory.owners:
            return
        self._judge_earlier_service()
        for pod in sorted(cycle.snapshot.foreign, key=_importance):
            backoff = cycle.owners.get(pod.owner)
            if backoff is not None and cycle.now < backoff.until:
                self._say(
                    pod, f"was not bound when it had room; room is made again in {backoff.until - cycle.now:.0f} s"
                )
            elif not self._fits(pod):
                self.unplaced.append(pod)

    def _fits(self, pod: ForeignPod) -> bool:
        board = self.cycle.board
        for now in (True, False):
            node = board.find(pod.shape, now=now)
            if node != NOWHERE:
                board.shift(node, pod.shape, (), -1 if now else 0, -1)
                self._say(pod, "fits" if now else "fits when what leaves has left", node)
                return True
        return False

    def _judge_earlier_service(self) -> None:
        """Who was served and is still pending though it fits: its owner backs off."""
        cycle, now = self.cycle, self.cycle.now
        for owner, known in cycle.memory.owners.items():
            if now < known.until + FOREIGN_BACKOFF_MAX:
                cycle.owners[owner] = known
        for uid, served in cycle.memory.served.items():
            if uid in cycle.snapshot.settled:
                cycle.owners.pop(served.owner, None)  # it helped
        for pod in cycle.snapshot.foreign:
            earlier = cycle.memory.served.get(pod.uid)
            if earlier is None:
                continue
            waited = now - earlier.at
            has_room = waited >= BOUND_WITHIN and cycle.board.find(pod.shape, now=True) != NOWHERE
            if has_room or waited >= ROOM_WITHIN:
                self._strike(pod.owner)
            else:
                cycle.served[pod.uid] = earlier

    def _strike(self, owner: str) -> None:
        cycle = self.cycle
        known: Backoff | None = cycle.owners.get(owner)
        if known is None or cycle.now >= known.until:
            cycle.owners[owner] = strike(known, cycle.now, FOREIGN_BACKOFF, FOREIGN_BACKOFF_MAX)

    def make_room(self) -> None:
        if not self.unplaced:
            return
        cycle = self.cycle
        donors = Donors(cycle.board, cycle.units, cycle.policy, tier=_expense)
        hopeless: set[tuple[int, int]] = set()
        cycle.said.clear()
        waiting: dict[int, int] = {}
        for pod in self.unplaced:
            waiting[pod.shape.index] = waiting.get(pod.shape.index, 0) + 1
        for pod in self.unplaced:
            if not self._serve(pod, donors, hopeless, waiting):
                hopeless.add((pod.shape.index, pod.shape.priority))
            waiting[pod.shape.index] -= 1

    def _serve(self, pod: ForeignPod, donors: Donors, hopeless: set[tuple[int, int]], waiting: dict[int, int]) -> bool:
        cycle, board, shape = self.cycle, self.cycle.board, pod.shape
        if not pod.refused:
            self._say(pod, "has no room yet; kube-scheduler has not judged it")
            return True
        node = board.find(shape, now=False)
        if node == NOWHERE and (shape.index, shape.priority) not in hopeless:
            node, givers = donors.make_room(shape, partial(_may_move, shape), None, waiting[shape.index])
            for unit in givers:
                unit.gives(Code.MADE_ROOM, f"{pod.namespace}/{pod.name} ({needs_in_words(cycle, shape)})")
        if node == NOWHERE:
            self._say(pod, f"no elastic job can make room for it: {room_in_words(cycle, shape, 'pod')}")
            return False
        board.shift(node, shape, (), 0, -1)
        cycle.served[pod.uid] = Served(owner=pod.owner, at=cycle.now)
        self._say(pod, "room is made for it", node)
        return True

    def in_order(self) -> tuple[ForeignOutcome, ...]:
        return tuple(sorted(self.outcomes.values(), key=lambda outcome: (outcome.namespace, outcome.name)))

    def _say(self, pod: ForeignPod, words: str, node: int = NOWHERE) -> None:
        name = self.cycle.board.name(node)
        where = f" on {name}" if name else ""
        self.outcomes[pod.uid or f"{pod.namespace}/{pod.name}"] = ForeignOutcome(
            pod.namespace, pod.name, node != NOWHERE, words + where, name
        )


def _may_move(shape: Shape, unit: Unit) -> bool:
    """Only for a pod that is not less important than the pods that would go, by Kubernetes' own priority."""
    return unit.role is not None and unit.role.shape.priority <= shape.priority


def _importance(pod: ForeignPod) -> tuple[int, float, str, str]:
    return -pod.shape.priority, pod.created, pod.namespace, pod.name


def _expense(unit: Unit) -> tuple[int, int]:
    """Lower priority first; then shorter pauses, by their order of magnitude."""
    return unit.priority, int(math.log2(1 + (unit.facts.rescale_seconds or 0.0) / _SHORT_PAUSE))
