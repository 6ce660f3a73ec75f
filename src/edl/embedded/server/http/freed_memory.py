"""Gives the memory of large requests back to the machine.

Python frees it, but the C library keeps it between blocks that live on: a few thousand requests of megabytes, refused
or not, left hundreds of MiB with the process for good.
"""

import asyncio
import ctypes
from collections.abc import Callable

_LARGE = 256 << 10
_SECONDS = 1.0


class FreedMemory:
    """Trims the heap at most once a second, and only after a large request; `trim` is the C library's."""

    def __init__(self, trim: Callable[[int], object] | None = None) -> None:
        self._trim = trim or getattr(ctypes.CDLL(None), "malloc_trim", None)  # only glibc has it
        self._timer: asyncio.TimerHandle | None = None
        self._rounds = 0

    def handled(self, size: int) -> None:
        """A request whose body and response had this size together was handled."""
        if size >= _LARGE and self._trim is not None:
            self._rounds = 2  # once more when the response, too, was sent and freed
            if self._timer is None:
                self._arm()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SECONDS, self._give_back)

    def _give_back(self) -> None:
        self._timer = None
        self._rounds -= 1
        if self._trim is not None:
            self._trim(0)
        if self._rounds > 0:
            self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
