"""Measures the CPU and memory of this process and its children, and reports them to the job service.

Best effort: a service that does not answer, or does not know the call, only loses the numbers.
"""

import contextlib
import logging
import os
import threading
import time
from typing import Protocol

from edl.runtime.service_client import ServiceDownError, ServiceRefusalError

log = logging.getLogger(__name__)

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
MIB = 1 << 20


class UsageSink(Protocol):
    """Receiver of usage reports."""

    def usage(self, pod: str, cpu: float, memory: int) -> None: ...


class Meter:
    """Cores used since the last sample, and present memory."""

    def __init__(self) -> None:
        self._cpu, self._at = _seconds(), time.monotonic()

    def sample(self) -> tuple[float, int]:
        cpu, now = _seconds(), time.monotonic()
        used = (cpu - self._cpu) / max(now - self._at, 1e-6)
        self._cpu, self._at = cpu, now
        return round(max(used, 0.0), 3), memory()


def _seconds() -> float:
    """CPU seconds of this process and its ended children, user and system."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def memory() -> int:
    """Resident MiB, rounded up; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return -(-pages * PAGE // MIB)


def start_reporting(sink: UsageSink, pod: str, every: float, *, over: threading.Event | None = None) -> None:
    """Reports in a thread of its own until `over` is set or the process ends."""
    ended, meter = over or threading.Event(), Meter()

    def run() -> None:
        while not ended.wait(every):
            with contextlib.suppress(ServiceDownError, ServiceRefusalError):
                sink.usage(pod, *meter.sample())

    threading.Thread(target=run, name="usage", daemon=True).start()
