"""Per-job soft state of the reconciler (back-offs, pending writes). Safe to lose."""

from collections.abc import Container, Iterable

import msgspec
from msgspec.structs import replace

from edl.jobs.core.grant import Grant
from edl.jobs.core.outcome import ObjectKey, Refusal
from edl.operator.reconcile.write_guard import WriteGuard

FIRST_RETRY = 1.0
LAST_RETRY = 15.0
MOVING, STARTING, CROWD = 16, 8, 200  # times as long as usual
NOT_YET = frozenset({"creating", "pending"})  # phases before a job first runs, as kinds call them


def for_numbers(current: int, target: int, phase: str, waiting: int) -> int:
    """How many times as long as usual a job's numbers wait to be written, when nothing but numbers has changed.

    Longer as long as more of them are sure to come: much longer until the job has half its size, a little until it
    runs, and the longer the more jobs are `waiting` so. After that, what happens to a pod is told within a second.
    """
    crowd = min(waiting, CROWD)
    if 2 * current < target:
        return max(MOVING, crowd)
    return max(STARTING, crowd) if phase.lower() in NOT_YET else 1


class SoftState(msgspec.Struct):
    """`message_time`: when a message alone was last written. `edition`: of the last grant whose message was written if
    it was another one; None before the first."""

    message_time: float
    edition: tuple[int, ...] | None = None
    made: set[ObjectKey] = set()
    refusals: dict[ObjectKey, Refusal] = {}
    pauses: dict[ObjectKey, float] = {}
    guard: WriteGuard = msgspec.field(default_factory=WriteGuard)

    def may_reword_since(self, grant: Grant | None, *, observed: bool) -> float:
        """As `message_time`, but what answers an edit need not wait. `observed`: the status is about the present spec,
        so that a new leader has no more to say about it than the one before."""
        if grant is None or not grant.edition:
            return self.message_time
        if self.edition is None:
            self.edition = grant.edition if observed else ()
        return self.message_time if grant.edition == self.edition else 0.0

    def refuse(self, refusals: Iterable[Refusal], now: float) -> None:
        """What was refused again is tried later each time."""
        for refusal in refusals:
            key = (refusal.kind, refusal.name)
            pause = self.pauses[key] = min(2 * self.pauses.get(key, FIRST_RETRY / 2), LAST_RETRY)
            self.refusals[key] = replace(refusal, retry_at=now + pause)

    def succeed(self, keys: Iterable[ObjectKey], *, unwatched: Container[str]) -> None:
        for key in keys:
            self.refusals.pop(key, None)
            self.pauses.pop(key, None)
            if key[0] in unwatched:
                self.made.add(key)

    def forget_old(self, now: float) -> None:
        """A refusal that nothing asks about any more (the job wants less now) is no news."""
        stale = [key for key, refusal in self.refusals.items() if now > refusal.retry_at + 2 * LAST_RETRY]
        for key in stale:
            del self.refusals[key]
            self.pauses.pop(key, None)

    def next_expiry(self) -> float | None:
        return min((refusal.retry_at + 2 * LAST_RETRY for refusal in self.refusals.values()), default=None)
