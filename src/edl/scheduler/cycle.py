"""One scheduling cycle in progress: the board, the units, and what the next cycle has to remember."""

from edl.scheduler.board import Board
from edl.scheduler.facts import JobFacts, Snapshot
from edl.scheduler.memory import Backoff, Memory, Promise, Served
from edl.scheduler.policy import Policy, policy_named
from edl.scheduler.settings import Settings, Weights
from edl.scheduler.unit import Unit

THOUSAND = 1000


class Cycle:
    def __init__(self, snapshot: Snapshot, memory: Memory, now: float, settings: Settings) -> None:
        self.snapshot = snapshot
        self.memory = memory
        self.now = now
        self.settings = settings
        self.policy: Policy = policy_named(settings.policy)
        self.board = Board(snapshot, settings, now)
        scores: dict[int, int] = {}
        self.units = [Unit(facts, now, self._score(facts, scores)) for facts in snapshot.jobs]
        self.active = [unit for unit in self.units if unit.facts.state == "active"]
        starts = memory.starts
        self.asked = [one for one in self.active if starts.get(one.key, one.facts.start) != one.facts.start]
        """Units whose users have asked for another size since the last cycle."""
        if memory.rooms:
            self._recall_rooms()
        # what the next cycle remembers
        self.waiting: dict[str, float] = {}
        self.promises: dict[str, Promise] = {}
        self.shapes: dict[str, Backoff] = {}
        self.served: dict[str, Served] = {}
        self.owners: dict[str, Backoff] = {}
        self.blocker: Unit | None = None
        self.steps = 0
        self.said: dict[tuple[int, str, int, int], str] = {}

    def _score(self, facts: JobFacts, scores: dict[int, int]) -> int:
        if not facts.roles:
            return THOUSAND
        shape = facts.roles[facts.scaled].shape
        score = scores.get(shape.index)
        if score is None:
            score = scores[shape.index] = resource_score(
                shape.gpus, shape.requests[0], shape.requests[1], self.settings.weights
            )
        return score

    def _recall_rooms(self) -> None:
        places = {node.name: place for place, node in enumerate(self.snapshot.nodes)}
        for unit in self.units:
            room = self.memory.rooms.get(unit.key, {})
            for role, facts in enumerate(unit.facts.roles):
                nodes: list[int] = [
                    places[name]
                    for name, pods in sorted(room.get(facts.name, {}).items())
                    if name in places
                    for _ in range(pods)
                ]
                if nodes:
                    unit.kept = {**unit.kept, role: nodes}


def resource_score(gpus: int, millicores: int, memory: int, weights: Weights) -> int:
    """100 per GPU, 1 per core, 0.1 per GiB, at least 1, unless weighted otherwise (decision 21); in thousandths."""
    score = weights.gpu * gpus + weights.cpu * millicores / THOUSAND + weights.memory_gib * memory / 2**30
    return max(THOUSAND, round(THOUSAND * score))
