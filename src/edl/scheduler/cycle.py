"""One scheduling cycle in progress: the cluster state, the units, and what the next cycle has to remember."""

from edl.scheduler.memory import Backoff, Memory, Promise, RefusedGrant, Relocation, Served, UserSize
from edl.scheduler.placement.cluster_state import ClusterState
from edl.scheduler.plan_cache import PlanCache
from edl.scheduler.policies.policy import Policy
from edl.scheduler.policies.registry import policy_named
from edl.scheduler.reasons.codes import Code
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.types import Snapshot
from edl.scheduler.unit import Unit


class Cycle:
    def __init__(self, snapshot: Snapshot, memory: Memory, now: float, settings: Settings, cache: PlanCache) -> None:
        self.snapshot = snapshot
        self.memory = memory
        self.now = now
        self.settings = settings
        self.policy: Policy = policy_named(settings.policy)
        self.cluster = ClusterState(snapshot, settings, now)
        self.cache = cache
        self.units = cache.begin(snapshot.jobs, now, settings.weights)
        self.active = [unit for unit in self.units if unit.facts.state == "active"]
        perhaps = self.active
        if cache.follows(memory.starts, memory.minima, memory.edits):
            changed = {id(unit.facts) for unit in cache.changed}
            perhaps = [unit for unit in perhaps if id(unit.facts) in changed] if changed else []
        self.resized_by_user = {unit for unit in perhaps if _resized(unit, memory)}
        """Units whose users have written another size since the last cycle."""
        self.asked_sizes: list[tuple[Unit, int]] = []
        """Units that are given a size that their users ask for."""
        for unit in self.active if memory.open_edits else perhaps:
            if _edited(unit, memory):
                unit.edited = True
        if memory.reservations:
            self._recall_reservations()
        # what the next cycle remembers
        self.waiting: dict[str, float] = {}
        self.user_sizes: dict[str, UserSize] = {}
        self.requests: dict[str, str] = {}
        self.starting: dict[str, float] = {}
        self.promises: dict[str, Promise] = {}
        self.relocations: dict[str, Relocation] = {}
        self.shapes: dict[str, Backoff] = {}
        self.refused: dict[str, RefusedGrant] = {}
        self.served: dict[str, Served] = {}
        self.owners: dict[str, Backoff] = {}
        self.steps = 0
        self.messages: dict[tuple[int, str, int, int], str] = {}
        self.reasons: dict[tuple[int, int, str, int], tuple[Code, str]] = {}
        """Of units that hold their size, by what they are made of."""

    def _recall_reservations(self) -> None:
        positions = {node.name: position for position, node in enumerate(self.snapshot.nodes)}
        known = self.memory.reservations
        for unit in [unit for unit in self.units if unit.key in known]:
            reserved = known[unit.key]
            for role, facts in enumerate(unit.facts.roles):
                nodes: list[int] = [
                    positions[name]
                    for name, pods in sorted(reserved.get(facts.name, {}).items())
                    if name in positions
                    for _ in range(pods)
                ]
                if nodes:
                    unit.reserved_nodes = {**unit.reserved_nodes, role: nodes}


def _resized(unit: Unit, memory: Memory) -> bool:
    """A size to start with that follows an edited minimum is no size that the user has set."""
    key, start = unit.key, unit.facts.start
    if memory.starts.get(key, start) == start:
        return False
    minimum = unit.facts.min
    return start != minimum or memory.minima.get(key, minimum) == minimum


def _edited(unit: Unit, memory: Memory) -> bool:
    """One that nothing is remembered of is not edited, but seen for the first time."""
    edit = unit.facts.edit
    if memory.edits.get(unit.key, edit) == edit:
        return unit.key in memory.open_edits
    return edit != ""
