"""Limits on the calls of a job: so many a second, so many open at a time. In memory, of one leadership.

What a job may ask for grows with its pods, so that no honest job meets a limit. A job that goes beyond is refused with
429; others are not, whatever it does: when all jobs together have too many calls open, those with few are still served.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.refusals import RefusedError
from edl.protocol.errors import ErrorCode

RATE, RATE_PER_POD = 200.0, 4.0  # calls a second
BURST = 5.0  # seconds of that rate, all at once
OPEN, OPEN_PER_POD = 256, 8  # calls that are being answered or wait; the rendezvous of a pod is one
OPEN_IN_ALL = 16_384
ALWAYS = 64  # calls that a job may have open however many others there are


class OpenCalls:
    """How many calls of all jobs are open."""

    def __init__(self) -> None:
        self.count = 0


class CallLimits:
    """Those of one job. Keeps three numbers, whatever is asked."""

    def __init__(self, all_calls: OpenCalls, now: float) -> None:
        self._all, self._open = all_calls, 0
        self._full_at = now
        """When the whole burst is there again, if nobody calls until then."""

    @contextmanager
    def admitted(self, record: JobRecord, now: float) -> Iterator[None]:
        """The block is one call. Raises RefusedError instead if there were too many."""
        pods = record.pod_count
        self._spend(RATE + RATE_PER_POD * pods, now)
        if self._open >= OPEN + OPEN_PER_POD * pods:
            raise _refused(f"{self._open} calls of this job are open")
        if self._all.count >= OPEN_IN_ALL and self._open >= ALWAYS:
            raise _refused(f"{self._all.count} calls are open, {self._open} of them of this job")
        self._open += 1
        self._all.count += 1
        try:
            yield
        finally:
            self._open -= 1
            self._all.count -= 1

    def _spend(self, rate: float, now: float) -> None:
        full_at = max(self._full_at, now) + 1.0 / rate
        if full_at > now + BURST:
            raise _refused(f"this job makes more than {rate:.0f} calls a second")
        self._full_at = full_at


def _refused(message: str) -> RefusedError:
    return RefusedError(429, ErrorCode.TOO_MANY_CALLS, f"{message}; wait before the next one", retry_after=1)
