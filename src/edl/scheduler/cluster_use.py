"""The use of the whole cluster that a plan tells of: what is there, what is used by whom, and what is free in vain.

Free capacity is in vain as far as jobs want more and the plan may not give it to them; the blocker of each job says
why. Nothing is decided here.
"""

from collections.abc import Mapping

import msgspec

from edl.ledger.uses import CapacityUse
from edl.scheduler.cycle import Cycle
from edl.scheduler.placement.resources import PODS
from edl.scheduler.plan_cache import Pods
from edl.scheduler.reasons.codes import Code

UNUSABLE_BY_CODE: Mapping[Code, CapacityUse] = {
    Code.NO_ROOM: CapacityUse.FRAGMENTATION,
    Code.OVERTAKEN: CapacityUse.FRAGMENTATION,
    Code.UNPLACEABLE: CapacityUse.FRAGMENTATION,
    Code.QUOTA: CapacityUse.QUOTA,
    Code.PROMISED: CapacityUse.QUOTA,
    Code.LOAD: CapacityUse.LOAD_CAP,
    Code.FROZEN: CapacityUse.FREEZING,
    Code.BACKOFF: CapacityUse.FREEZING,
    Code.ROOM_COMING: CapacityUse.FREEZING,
    Code.MOVED: CapacityUse.FREEZING,
    Code.STARTING: CapacityUse.FREEZING,
}
_NONE: Mapping[str, int] = {}


class ClusterUse(msgspec.Struct, frozen=True):
    """By resource: millicores, bytes, devices. Of usable nodes."""

    capacity: Mapping[str, int]
    used_before: Mapping[str, int]
    used_after: Mapping[str, int]
    by_jobs: Mapping[str, int] = _NONE
    """Of `used_before`: by pods of jobs that are not leaving."""
    wanted: Mapping[CapacityUse, Mapping[str, int]] = {}
    """What jobs want and may not have, by the reason."""
    waiting: int = 0
    """Jobs that want to run and have no instance."""


def cluster_use(cycle: Cycle) -> ClusterUse:
    names, cluster = cycle.snapshot.axes.names, cycle.cluster
    before = [have - free for have, free in zip(cluster.capacity, cluster.free_before, strict=True)]
    after = [have - free for have, free in zip(cluster.capacity, cluster.total(cluster.free_later), strict=True)]
    return ClusterUse(
        capacity=dict(zip(names, cluster.capacity, strict=True)),
        used_before=dict(zip(names, before, strict=True)),
        used_after=dict(zip(names, after, strict=True)),
        by_jobs=_amounts(cycle, _live_pods(cycle)),
        wanted={why: _amounts(cycle, pods) for why, pods in _wanted_pods(cycle).items()},
        waiting=sum(1 for unit in cycle.active if unit.size == 0 and unit.floor > 0),
    )


def _live_pods(cycle: Cycle) -> Pods:
    """Pods of jobs on usable nodes, by what they ask for: there are few shapes and many jobs."""
    usable = cycle.cluster.usable
    if all(usable):
        return cycle.cache.live_pods
    found: Pods = {}
    for unit in cycle.units:
        facts = unit.facts
        for role, live, bound in zip(facts.roles, facts.live, facts.bound, strict=False):
            if live:
                live = sum([pods for node, pods in bound.items() if usable[node]])
            if live:
                shape = role.given or role.shape
                found[shape] = found.get(shape, 0) + live
    return found


def _wanted_pods(cycle: Cycle) -> dict[CapacityUse, Pods]:
    found: dict[CapacityUse, Pods] = {}
    for unit in cycle.active:
        if unit.size >= unit.ceiling or unit.blocker is None or unit.role is None:
            continue
        why = UNUSABLE_BY_CODE.get(unit.blocker.code)
        if why is not None:
            pods, shape = found.setdefault(why, {}), unit.role.shape
            pods[shape] = pods.get(shape, 0) + unit.ceiling - unit.size
    return found


def _amounts(cycle: Cycle, pods: Pods) -> dict[str, int]:
    names = cycle.snapshot.axes.names
    total = [0] * len(names)
    for shape, count in pods.items():
        for axis, amount in shape.needs:
            total[axis] += amount * count
    return dict(zip(names, total, strict=True)) | {PODS: sum(pods.values())}
