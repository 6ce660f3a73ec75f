"""What follows from the facts of each job alone, kept from plan to plan for jobs whose facts are the same object.

Passed to `plan` by whoever plans again and again; a plan without one, or with a new one, is the same plan. It holds
nothing that a plan decides, but for decisions that the next plan takes over only if it has come to equal ones.
"""

from collections.abc import Iterable, Sequence

from edl.scheduler.settings import Weights
from edl.scheduler.snapshot.types import JobFacts, Shape
from edl.scheduler.unit import Unit, raise_floor, resource_score

Pods = dict[Shape, int]


class PlanCache:
    def __init__(self) -> None:
        self._weights = Weights()
        self._first: dict[int, Unit] = {}
        """By the identity of their facts: units as they begin every cycle."""
        self._order: list[Unit] = []
        self.changed: list[Unit] = []
        """Those whose facts are others than in the last plan."""
        self.starts: dict[str, int] = {}
        """Of active jobs, as `Memory` has it; the same object as long as the facts are the same. So are these:"""
        self.minima: dict[str, int] = {}
        self.edits: dict[str, str] = {}
        self.live_pods: Pods = {}
        """Live pods of all jobs, by what they give back."""
        self.before: tuple[object, object, object] = self.starts, self.minima, self.edits
        """The three mappings of the last plan."""

    def begin(self, jobs: Sequence[JobFacts], now: float, weights: Weights) -> list[Unit]:
        """Units of these jobs, at the beginning of a cycle."""
        if weights != self._weights:
            self._weights, self._first = weights, {}
        self.before = self.starts, self.minima, self.edits
        known = self._first
        order = [known.get(id(facts)) for facts in jobs]
        if len(order) != len(known) or not all(order):
            self._renew(jobs)
        else:
            self._order, self.changed = [unit for unit in order if unit is not None], []
        return _copies(self._order, now)

    def follows(self, starts: object, minima: object, edits: object) -> bool:
        """Whether these are what the last plan remembered: then nothing is new of jobs that have not changed."""
        return self.before[0] is starts and self.before[1] is minima and self.before[2] is edits

    def _renew(self, jobs: Sequence[JobFacts]) -> None:
        known, before = self._first, self._order
        scores: dict[int, int] = {}
        self._order = [known.get(id(facts)) or self._unit(facts, scores) for facts in jobs]
        self._first = {id(unit.facts): unit for unit in self._order}
        self.changed = [unit for unit in self._order if id(unit.facts) not in known]
        gone = [unit for unit in before if self._first.get(id(unit.facts)) is not unit]
        self._remember(gone)
        for unit in gone:
            _count(self.live_pods, unit.facts, -1)
        for unit in self.changed:
            _count(self.live_pods, unit.facts, 1)

    def _unit(self, facts: JobFacts, scores: dict[int, int]) -> Unit:
        shape = facts.roles[facts.lead].shape if facts.roles else None
        number = shape.index if shape is not None else -1
        score = scores.get(number)
        if score is None:
            asked = (shape.gpus, shape.requests[0], shape.requests[1]) if shape is not None else (0, 0, 0)
            score = scores[number] = resource_score(*asked, self._weights)
        unit = Unit(facts, 0.0, score)
        if unit.at_rest and facts.state == "active":
            raise_floor(unit)
        return unit

    def _remember(self, gone: Iterable[Unit]) -> None:
        starts, minima, edits = self.starts.copy(), self.minima.copy(), self.edits.copy()
        for unit in gone:
            for mapping in (starts, minima, edits):
                mapping.pop(unit.key, None)
        _note(self.changed, starts, minima, edits)
        active = [unit for unit in self._order if unit.facts.state == "active"]
        if len(starts) != len(active):  # two jobs of one key: the last one counts
            starts, minima, edits = {}, {}, {}
            _note(active, starts, minima, edits)
        self.starts, self.minima, self.edits = starts, minima, edits


def _copies(units: Iterable[Unit], now: float) -> list[Unit]:
    """For the cycle to change: there may be ten thousand, so they are copied without a call for each."""
    found, new = [], Unit.__new__
    for first in units:
        unit = new(Unit)
        unit.__dict__ = first.__dict__.copy()
        unit.now = now
        found.append(unit)
    return found


def _note(units: Iterable[Unit], starts: dict[str, int], minima: dict[str, int], edits: dict[str, str]) -> None:
    for unit in units:
        facts = unit.facts
        if facts.state == "active":
            starts[unit.key], minima[unit.key], edits[unit.key] = facts.start, facts.min, facts.edit


def _count(pods: Pods, facts: JobFacts, sign: int) -> None:
    for role, live in zip(facts.roles, facts.live, strict=False):
        if live:
            shape = role.given or role.shape
            left = pods[shape] = pods.get(shape, 0) + sign * live
            if not left:
                del pods[shape]
