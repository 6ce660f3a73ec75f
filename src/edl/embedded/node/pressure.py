"""Pressure on a node: the machine had no memory, disk, process or descriptor left to start a container with.

As a kubelet does, the node reports it as a condition, for which the cluster taints it, and takes no new pods meanwhile.
It lasts until nothing was missing for a while. Nobody measures beforehand: what counts is that something failed for it.
"""

import errno
import os
from collections.abc import Callable

MEMORY, DISK, PROCESSES = "MemoryPressure", "DiskPressure", "PIDPressure"
CONDITIONS = {
    MEMORY: ("KubeletHasSufficientMemory", "KubeletHasInsufficientMemory"),
    DISK: ("KubeletHasNoDiskPressure", "KubeletHasDiskPressure"),
    PROCESSES: ("KubeletHasSufficientPID", "KubeletHasInsufficientPID"),
}
"""The reasons of each condition when it is false and when it is true."""

_BY_ERROR = {
    errno.ENOMEM: MEMORY,
    errno.ENOSPC: DISK,
    errno.EDQUOT: DISK,
    errno.EAGAIN: PROCESSES,
    errno.EMFILE: PROCESSES,
    errno.ENFILE: PROCESSES,
}
_BY_WORDS = {os.strerror(number): condition for number, condition in _BY_ERROR.items()}

HOLD_SECONDS = 20.0
EVICT_SECONDS = 10.0
"""A pod that never ran and lacks something of the machine for so long is given back to the cluster."""


def condition_for(message: str) -> str | None:
    """The condition that a failure to start a container is a sign of, by the system's words for it."""
    return next((condition for words, condition in _BY_WORDS.items() if words in message), None)


class Pressure:
    """`changed` is called when a condition begins."""

    def __init__(self, *, hold: float = HOLD_SECONDS, changed: Callable[[], None] = lambda: None) -> None:
        self._hold, self._changed = hold, changed
        self._until: dict[str, float] = {}

    def note(self, condition: str, now: float) -> None:
        begins = condition not in self.active(now)
        self._until[condition] = now + self._hold
        if begins:
            self._changed()

    def active(self, now: float) -> tuple[str, ...]:
        return tuple(condition for condition in CONDITIONS if self._until.get(condition, 0.0) > now)
