"""The bytes that the states of all jobs take in the operator's memory, and who may add to them.

Each job is bounded by itself (`state`); with very many jobs that is not enough. When all together have too many, a job
that has little may still add to it, so that no job is stopped by what others store.
"""

from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.state import JobState, size
from edl.protocol.errors import ErrorCode

IN_ALL = 256 << 20
ALWAYS = 8 << 10  # bytes that a job may have however many others there are
PER_SLOT = 64  # beside its texts
LEDGER = 2 << 10  # of a job's account, about


def weight(state: JobState) -> int:
    """Bytes that a state takes, roughly."""
    slots = sum(PER_SLOT + len(slot.holder) + len(slot.address) for slot in state.slots.values())
    measured = PER_SLOT * len(state.measured.points) if state.measured is not None else 0
    return size(state) + slots + measured + (LEDGER if state.ledger is not None else 0)


class MemoryBudget:
    """Of all jobs under one leader."""

    def __init__(self, in_all: int = IN_ALL) -> None:
        self._in_all = in_all
        self.used = 0

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        """A job's state takes the place of another; None: it came, or is gone."""
        self.used += (weight(new) if new is not None else 0) - (weight(old) if old is not None else 0)

    def check(self, old: JobState, new: JobState) -> None:
        """RefusedError if there is no room for what the new state has more."""
        had, wants = weight(old), weight(new)
        if wants > max(had, ALWAYS) and self.used + wants - had > self._in_all:
            message = (
                f"all jobs together store {self.used} bytes, {self._in_all} is the most: "
                f"a job may have {ALWAYS} of them in any case, this one would have {wants}"
            )
            raise RefusedError(429, ErrorCode.BUSY, message, retry_after=10)
