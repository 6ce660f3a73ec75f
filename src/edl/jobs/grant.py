"""What the scheduler has granted to a job, and how that enters its status: durable first, acted upon after.

A grant lives in the memory of the operator that leads. The target in status is the grant of whoever led before: a new
leader starts from it, so that a change of leaders moves nobody.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from edl.api import timestamp
from edl.api.meta import EMPTY
from edl.api.status import Scale, ScaleRecord
from edl.api.training_job import TrainingScale

HISTORY = 10
S = TypeVar("S", Scale, TrainingScale)


class Grant(msgspec.Struct, frozen=True):
    """By role, `nodes`: where the plan sees its new pods; `leavers`: how many it wants gone from which node."""

    target: int
    code: str = ""
    words: str = ""
    nodes: Mapping[str, tuple[str, ...]] = EMPTY
    leavers: Mapping[str, Mapping[str, int]] = EMPTY
    roles: Mapping[str, int] = EMPTY
    """Pods of every role that the plan knew of, beside this target."""

    def nodes_of(self, role: str) -> tuple[str, ...]:
        return self.nodes.get(role, ())

    def leavers_of(self, role: str) -> Mapping[str, int]:
        return self.leavers.get(role, EMPTY)


def remembered(scale: Scale | TrainingScale | None) -> Grant | None:
    """The grant that status tells of, None if there never was one."""
    if scale is None or scale.target is None:
        return None
    return Grant(scale.target, scale.code, scale.reason)


def entered(scale: S, grant: Grant, now: float, *, may_reword: bool) -> S:
    """The scheduling facts with the grant in them. The same code in other words is news only now and then."""
    before = scale.target or 0
    if grant.target == scale.target:
        if grant.code == scale.code and not may_reword:
            return scale
        return replace(scale, code=grant.code, reason=grant.words)
    when = timestamp.text(now)
    if before == grant.target:  # the first grant of all, and it is nothing
        return replace(scale, target=grant.target, code=grant.code, reason=grant.words)
    record = ScaleRecord(before=before, to=grant.target, reason=grant.words, time=when)
    return replace(
        scale,
        target=grant.target,
        code=grant.code,
        reason=grant.words,
        last_scale_time=when,
        history=(*scale.history, record)[-HISTORY:],
    )
