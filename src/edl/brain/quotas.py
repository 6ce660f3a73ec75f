"""Quotas of a namespace at the Brain: jobs and bytes that are kept for it, and calls that are answered.

What one namespace uses never counts against another. Its oldest jobs that have ended make room for new ones; what then
still is too much is refused with 429, and the trainer goes on by local rules.
"""

import msgspec

BURST = 5.0  # seconds of the allowed rate, all at once
CALL_BYTES = 64 << 10  # of a body that count as one call
SILENT = 86_400.0  # seconds after which a job that never said that it ended may be forgotten like one that did
COUNTED = 10.0  # seconds for which a count of what a namespace keeps is used
IDLE = 4096  # namespaces whose calls are remembered before those that have been still are dropped


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """Of each namespace."""

    jobs: int = 2000
    mebibytes: int = 32
    calls: float = 100.0  # a second

    @property
    def bytes(self) -> int:
        return self.mebibytes << 20


class QuotaExceededError(Exception):
    """The namespace has all that it may have; the message says what."""


class NamespaceUsage:
    """What namespaces keep, so that not every report counts all jobs of its namespace anew. Between two counts it adds
    up what was written here; what another Brain writes to the same database is seen with the next count."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[float, int, int]] = {}  # when, jobs, bytes

    def get(self, namespace: str, now: float) -> tuple[int, int] | None:
        """Jobs and bytes; None if they are to be counted."""
        at, jobs, stored = self._counted.get(namespace, (-COUNTED, 0, 0))
        return (jobs, stored) if at <= now < at + COUNTED else None

    def set(self, namespace: str, jobs: int, stored: int, now: float) -> None:
        if len(self._counted) >= IDLE:
            self._counted = {name: found for name, found in self._counted.items() if now < found[0] + COUNTED}
        self._counted[namespace] = now, jobs, stored

    def add(self, namespace: str, *, jobs: int, stored: int) -> None:
        if found := self._counted.get(namespace):
            self._counted[namespace] = found[0], found[1] + jobs, found[2] + stored

    def forget(self, namespace: str) -> None:
        self._counted.pop(namespace, None)


class CallRates:
    """A leaky bucket for each namespace: one number, whatever is asked."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._full_at: dict[str, float] = {}  # when the whole burst is there again, if nobody calls until then

    def take(self, namespace: str, size: int, now: float) -> float:
        """Counts a call with a body of `size` bytes: 0 if it is allowed, else the seconds after which one would be."""
        cost = (1 + size // CALL_BYTES) / self._rate
        full_at = max(self._full_at.get(namespace, now), now)
        if full_at > now and full_at + cost - now > BURST:
            return full_at + cost - now - BURST
        if len(self._full_at) >= IDLE:
            self._full_at = {name: at for name, at in self._full_at.items() if at > now}
        self._full_at[namespace] = full_at + cost
        return 0.0
