"""Reports to the job service that the workers of this agent make progress, for scripts that report nothing themselves.

A worker that does next to no computing for the job's stall timeout hangs: in a collective whose peer hangs, on a disk,
in a deadlock. The agent reports while they compute and is silent while they do not; the operator decides.
Does nothing unless the job has a stall timeout (EDL_STALL_TIMEOUT, seconds). A worker that spins is not recognised.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from edl.runtime.environment import Environment
from edl.runtime.torch.service_call import ProgressCall

log = logging.getLogger(__name__)

SHARE = 0.02  # of one core: less than this is nothing
CHECKS = 5  # in a stall timeout


class Activity:
    """`check` is called often; it reports at most a few times in a stall timeout, and only what is true."""

    def __init__(self, timeout: float, *, computed: Callable[[], float], report: Callable[[], None]) -> None:
        self._every, self._computed, self._report = timeout / CHECKS, computed, report
        self._last: tuple[float, float] | None = None

    def begin(self) -> None:
        """Workers are started: that is something."""
        self._last = None
        self._report()

    def wait(self, now: float) -> None:
        """There are no workers, and that is right."""
        if self._last is None or now >= self._last[0] + self._every:
            self._last = now, self._last[1] if self._last else 0.0
            self._report()

    def check(self, now: float) -> None:
        if self._last is not None and now < self._last[0] + self._every:
            return
        computed = self._computed()
        if self._last is not None and computed - self._last[1] >= SHARE * (now - self._last[0]):
            self._report()
        self._last = now, computed


def of_workers(zygote: Callable[[], int | None], env: Mapping[str, str]) -> Activity | None:
    """Of all processes below this one, but for the one that workers are forked from."""
    timeout = float(env.get("EDL_STALL_TIMEOUT") or 0)
    here = Environment.read(env)
    if timeout <= 0 or not here.service_url:
        return None
    call = ProgressCall.of(here)

    def report() -> None:
        threading.Thread(target=_report, args=(call, here.pod), daemon=True).start()

    return Activity(timeout, computed=lambda: computed(os.getpid(), zygote()), report=report)


def computed(root: int, besides: int | None = None) -> float:
    """CPU seconds of all that runs below a process."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):  # it ended meanwhile
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                pid = int(entry.name)
                parents[pid], ticks[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(ticks.get(pid, 0) for pid in below - {root, besides}) / os.sysconf("SC_CLK_TCK")


def _report(call: ProgressCall, pod: str) -> None:
    try:
        call.send({"pod": pod})
    except OSError as error:
        log.info("progress was not reported: %s", error)
