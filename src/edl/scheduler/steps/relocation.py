"""Brings instances of a unit together. Pods stay where they are put, so it grows elsewhere and leaves where it was.

Instances on more nodes than they need train slower. Where the size that a unit is to have fits on fewer nodes than it
would be on, it is given that size there, on top of what it has, and the next plan in which all of it runs takes back
the old instances. Never above its maximum, and only on capacity that is free now.
"""

from collections.abc import Collection, Sequence

from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import Relocation
from edl.scheduler.placement.compact import compact_nodes, most_together
from edl.scheduler.placement.gang import place_gang
from edl.scheduler.placement.placements import shrink
from edl.scheduler.policies.goodput import gathering_pays
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.settings import PROMISE_FOR
from edl.scheduler.steps.reclaim import can_give, instances_by_node
from edl.scheduler.unit import Unit


def finish_relocations(cycle: Cycle) -> None:
    """Old instances leave once the new ones run."""
    for unit in cycle.active if cycle.memory.relocations else ():
        relocation = cycle.memory.relocations.get(unit.key)
        if relocation is None or unit.size <= relocation.size or unit.moved or not can_give(unit):
            continue
        facts = unit.facts
        if facts.unbound or facts.running < unit.size:
            if cycle.now - relocation.made < PROMISE_FOR:
                cycle.relocations[unit.key] = relocation
            continue
        old = {node for node in instances_by_node(unit) if cycle.cluster.name(node) in relocation.nodes}
        shrink_compactly(cycle, unit, unit.size_within(relocation.size), first=old)
        unit.note_shrink(Code.GATHERED, str(relocation.size))


def gather(cycle: Cycle, units: Sequence[Unit]) -> None:
    """Units that keep their size, but would be faster with it on one node."""
    for unit in units:
        settled = not (unit.grew or unit.moved or unit.promised or unit.admitted)
        if settled and unit.facts.model is not None and len(instances_by_node(unit)) > 1 and gathering_pays(unit):
            relocate(cycle, unit, unit.size)


def relocate(cycle: Cycle, unit: Unit, size: int) -> bool:
    """Gives it the size anew, if that is on fewer nodes than it would be on otherwise."""
    role, own = unit.role, instances_by_node(unit)
    if role is None or role.shape.rules or not own or unit.size + size > unit.ceiling or unit.sizes:
        return False
    if sum(unit.pods_at(size)) != size or unit.facts.unbound:
        return False  # other roles would have to move too
    fewest = -(-size // max(1, most_together(cycle.cluster, role.shape)))
    beside = set(compact_nodes(cycle.cluster, role.shape, size - unit.size, own, now=True)) | own.keys()
    if len(beside) <= fewest:
        return False
    anew = compact_nodes(cycle.cluster, role.shape, size, {}, now=True)
    if len(anew) < size or len(set(anew)) >= len(beside):
        return False
    if _place_on(cycle, unit, unit.size + size, anew, now=True) is not None:
        return False
    nodes = tuple(sorted(cycle.cluster.name(node) for node in own))
    cycle.relocations[unit.key] = Relocation(size, nodes, cycle.now)
    cycle.cluster.resize(unit, unit.size + size)
    unit.grew = True
    together = f"to bring its {size} together on {_nodes_text(len(set(anew)))}; the others leave then"
    unit.because = unit.because or together
    return True


def _nodes_text(nodes: int) -> str:
    return "one node" if nodes == 1 else f"{nodes} nodes"


def place_compactly(cycle: Cycle, unit: Unit, size: int, *, now: bool) -> Blocker | None:
    """Places what it lacks of a size, close together; the blocker, and nothing has changed, if that cannot be."""
    cycle.steps += 1
    pods = [have - had for have, had in zip(unit.pods_at(size), unit.pods_at(unit.size), strict=True)]
    unit.open_placements()
    lead, role = unit.facts.lead, unit.role
    if role is None:
        return Blocker(Code.NO_ROOM)
    nodes = compact_nodes(cycle.cluster, role.shape, pods[lead], instances_by_node(unit), now=now)
    if len(nodes) < pods[lead] and not role.shape.rules:
        return Blocker(Code.NO_ROOM, role=lead, placed=len(nodes), needed=pods[lead])
    return _place_on(cycle, unit, size, nodes, now=now)


def _place_on(cycle: Cycle, unit: Unit, size: int, nodes: Sequence[int], *, now: bool) -> Blocker | None:
    """Places what it lacks of a size on these nodes, one for each instance."""
    pods = [have - had for have, had in zip(unit.pods_at(size), unit.pods_at(unit.size), strict=True)]
    unit.open_placements()
    lead = unit.facts.lead
    before, unit.reserved_nodes = unit.reserved_nodes, {lead: list(reversed(nodes))}
    blocker = place_gang(cycle.cluster, unit, pods, now=now, growth=True)
    unit.reserved_nodes = before
    return blocker


def shrink_compactly(cycle: Cycle, unit: Unit, size: int, first: Collection[int] = ()) -> None:
    """Leaves these nodes first, then those with the fewest of its instances."""
    unit.open_placements()
    while unit.size > size:
        own = instances_by_node(unit)
        node = min(own, key=lambda node: (node not in first, own[node], -node), default=-1)
        shrink(cycle.cluster, unit, max(size, unit.size - own.get(node, unit.size)), prefer=node)
