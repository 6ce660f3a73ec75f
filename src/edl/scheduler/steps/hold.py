"""Step 2 of a cycle: every job holds its last target before anything is decided.

Pods of that target that do not exist yet, or have no node yet, are placed where they fit; live pods beyond it count
as leaving. What cannot be placed is no target: above the minimum the target falls to what can, and a minimum that is
not complete waits with the others. No limit of growth applies here: no target is reduced for a load cap.
"""

from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import strike
from edl.scheduler.placement.cluster_state import ClusterState
from edl.scheduler.placement.gang import guard_of
from edl.scheduler.placement.placements import (
    complete,
    largest_size,
    place_pod,
    placed_pods,
    remove_pod,
    remove_surplus,
    shrink,
)
from edl.scheduler.reasons.codes import Code
from edl.scheduler.settings import REFUSED_FOR, SHAPE_BACKOFF, SHAPE_BACKOFF_MAX
from edl.scheduler.snapshot.types import NOWHERE
from edl.scheduler.steps.refused_grants import give_back, recall_refusals
from edl.scheduler.unit import PlacementState, Unit, raise_floor


def hold(cycle: Cycle) -> None:
    back_off_shapes(cycle)
    recall_refusals(cycle)
    holding = [unit for unit in cycle.units if not unit.at_rest and _prepare(cycle, unit)]
    holding.sort(key=lambda unit: unit.tie)
    for unit in holding:  # everyone's minimum before anyone's more
        place_up_to(cycle.cluster, unit, unit.pods_at(min(unit.size, unit.floor)))
    for unit in holding:
        place_up_to(cycle.cluster, unit, unit.pods_at(unit.size))
        _shrink_to_placed(cycle.cluster, unit)
    for unit in cycle.active:
        if not unit.at_rest:  # `plan_cache` has done it for the others
            raise_floor(unit)


def _prepare(cycle: Cycle, unit: Unit) -> bool:
    """Opens its placements and brings its size into its bounds; whether it has pods to place."""
    unit.open_placements()
    cluster = cycle.cluster
    if unit.facts.state != "active":
        unit.size = 0
    elif not unit.facts.pause:
        _withdraw(cycle, unit)
        give_back(cycle, unit)
        _into_bounds(unit)
    for role, pods in enumerate(unit.unbound):
        for _ in pods:
            cluster.count(unit.placements[role], (NOWHERE, PlacementState.UNBOUND), 1)
    _remove_unbound(cluster, unit)
    remove_surplus(cluster, unit)
    return unit.size > 0


def _into_bounds(unit: Unit) -> None:
    fitting = unit.size_within(unit.size) if unit.size > 0 else 0
    if fitting < unit.size:
        unit.note_shrink(Code.ABOVE_MAXIMUM, str(fitting))
    unit.size = fitting


def _withdraw(cycle: Cycle, unit: Unit) -> None:
    """With a pod that kube-scheduler has refused for 15 s, the target falls to what is bound (decision 26)."""
    facts = unit.facts
    if facts.admission == "create" or (cycle.policy.starts_without_capacity(unit) and unit.size <= unit.floor):
        return
    refused = [
        role
        for role, pods in enumerate(unit.unbound)
        if any(pod.refused_since is not None and cycle.now - pod.refused_since >= REFUSED_FOR for pod in pods)
    ]
    if not refused:
        return
    if any(facts.lead != role for role in refused) and unit.fall_back():
        for role in refused:
            _back_off(cycle, unit, role, whole=True)
        return
    done = [facts.done if role == facts.lead else 0 for role in range(len(facts.roles))]
    held = largest_size(unit, [live + more for live, more in zip(facts.live, done, strict=True)])
    if held < unit.floor and facts.reached:
        held = min(unit.floor, unit.size)  # it runs: its minimum waits where it is
    for role in refused:
        _back_off(cycle, unit, role, whole=held < unit.floor)
    if held < unit.size:
        unit.note_shrink(Code.WITHDRAWN, str(unit.size - held))
    unit.size = held


def _back_off(cycle: Cycle, unit: Unit, role: int, *, whole: bool) -> None:
    """Only if the plan sees capacity for it: where there is none, the refusal is no surprise. But a job that goes as
    a whole frees capacity that it held itself: it would get the same again at once, and nothing would have changed."""
    shape = unit.facts.roles[role].shape
    known = cycle.shapes.get(shape.key)
    if not whole and cycle.cluster.find(shape, now=True) == NOWHERE:
        return
    if known is None or cycle.now >= known.until:
        cycle.shapes[shape.key] = strike(known, cycle.now, SHAPE_BACKOFF, SHAPE_BACKOFF_MAX)
    cycle.cluster.backoff[shape.index] = cycle.shapes[shape.key].until


def back_off_shapes(cycle: Cycle) -> None:
    """Shapes that still back off from earlier cycles; old ones are forgotten."""
    if not cycle.memory.shapes:
        return
    for key, known in cycle.memory.shapes.items():
        if cycle.now < known.until + SHAPE_BACKOFF_MAX:
            cycle.shapes[key] = known
    for facts in cycle.snapshot.jobs:
        for role in facts.roles:
            entry = cycle.shapes.get(role.shape.key)
            if entry is not None and cycle.now < entry.until:
                cycle.cluster.backoff[role.shape.index] = entry.until


def _remove_unbound(cluster: ClusterState, unit: Unit) -> None:
    """Unbound pods beyond what the size wants go first: they cost nothing."""
    for role, wanted in enumerate(unit.pods_at(unit.size)):
        done = unit.facts.done if role == unit.facts.lead else 0
        spare = sum(unit.placements[role].values()) + done - wanted
        for _ in range(min(spare, len(unit.unbound[role]))):
            unit.unbound[role].pop()
            remove_pod(cluster, unit, role, NOWHERE, PlacementState.UNBOUND)


def place_up_to(cluster: ClusterState, unit: Unit, wanted: tuple[int, ...]) -> None:
    for role, count in enumerate(wanted):
        missing = count - placed_pods(unit, role)
        while missing > 0 and _place_one(cluster, unit, role):
            missing -= 1


def _place_one(cluster: ClusterState, unit: Unit, role: int) -> bool:
    """First the pods that exist, near where their plan wanted them; then those still to be made."""
    facts, unbound = unit.facts.roles[role], unit.unbound[role]
    exists = bool(unbound)
    if not exists and (
        facts.problem or any(cluster.quota_later[quota_line] < amount for quota_line, amount in facts.charges)
    ):
        return False
    hint = unbound[0].hint if exists else NOWHERE
    for now in (True, False):
        node = cluster.find(facts.shape, now=now, guard=guard_of(unit, role), prefer=hint)
        if node != NOWHERE:
            break
    else:
        return False
    if exists:
        unbound.pop(0)
        cluster.count(unit.placements[role], (NOWHERE, PlacementState.UNBOUND), -1)
    state = PlacementState.DEFERRED if not now else PlacementState.UNBOUND if exists else PlacementState.NEW
    place_pod(cluster, unit, role, node, state, exists=exists)
    return True


def _shrink_to_placed(cluster: ClusterState, unit: Unit) -> None:
    """Above the minimum the size falls to what is placed; below it the unit waits for the rest."""
    if unit.facts.pause:
        return
    size = largest_size(unit, [placed_pods(unit, role) for role in range(len(unit.facts.roles))]) or unit.floor
    if size < unit.size:
        if unit.shrink_reason is None:
            unit.note_shrink(Code.UNPLACEABLE, str(unit.size - size))
        shrink(cluster, unit, size)
    unit.incomplete = not complete(unit, size)
