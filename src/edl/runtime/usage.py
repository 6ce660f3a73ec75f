"""What this process and its children use of the machine, told to the job service while it lives.

Nobody depends on it: a service that does not answer, or does not know the call, costs nothing but the number.
"""

import contextlib
import logging
import os
import threading
import time
from typing import Protocol

from .service import ServiceDownError, ServiceRefusalError

log = logging.getLogger(__name__)

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
MIB = 1 << 20


class Ear(Protocol):
    """Who is told."""

    def usage(self, pod: str, cpu: float, memory: int) -> None: ...


class Meter:
    """Cores used since the last look, and memory now."""

    def __init__(self) -> None:
        self._cpu, self._at = _seconds(), time.monotonic()

    def look(self) -> tuple[float, int]:
        cpu, now = _seconds(), time.monotonic()
        used = (cpu - self._cpu) / max(now - self._at, 1e-6)
        self._cpu, self._at = cpu, now
        return round(max(used, 0.0), 3), memory()


def _seconds() -> float:
    """Of this process and of its children that have ended, user and system."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def memory() -> int:
    """MiB in the machine's memory, rounded up; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return -(-pages * PAGE // MIB)


def tell_always(ear: Ear, pod: str, every: float, *, over: threading.Event | None = None) -> None:
    """In a thread of its own, until `over`, or until the process ends."""
    ended, meter = over or threading.Event(), Meter()

    def run() -> None:
        while not ended.wait(every):
            with contextlib.suppress(ServiceDownError, ServiceRefusalError):
                ear.usage(pod, *meter.look())

    threading.Thread(target=run, name="usage", daemon=True).start()
