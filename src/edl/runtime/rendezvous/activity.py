"""Tells the job service that the workers of this agent still get somewhere, for scripts that tell nothing themselves.

A worker that does next to no computing for the job's stall timeout hangs: in a collective whose peer hangs, on a disk,
in a deadlock. The agent reports while they compute and is silent while they do not; the operator draws the conclusion.
Does nothing unless the job has a stall timeout (EDL_STALL_TIMEOUT, seconds). What spins is not recognised.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Mapping

import psutil

from edl.runtime.environment import Environment
from edl.runtime.service import ServiceClient, ServiceDownError, ServiceRefusalError

log = logging.getLogger(__name__)

SHARE = 0.02  # of one core: less than this is nothing
LOOKS = 5  # in a stall timeout


class Activity:
    """`look` is called often; it reports at most a few times in a stall timeout, and only what is true."""

    def __init__(self, timeout: float, *, computed: Callable[[], float], report: Callable[[], None]) -> None:
        self._every, self._computed, self._report = timeout / LOOKS, computed, report
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

    def look(self, now: float) -> None:
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
    client = ServiceClient(here.service_url, here.namespace, here.job, here.token, ca=here.service_ca)

    def report() -> None:
        threading.Thread(target=_tell, args=(client, here.pod), daemon=True).start()

    return Activity(timeout, computed=lambda: computed(os.getpid(), zygote()), report=report)


def computed(root: int, besides: int | None = None) -> float:
    """CPU seconds of all that runs below a process."""
    seconds = 0.0
    for process in psutil.Process(root).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            seconds += 0.0 if process.pid == besides else times.user + times.system
    return seconds


def _tell(client: ServiceClient, pod: str) -> None:
    try:
        client.progress({"pod": pod})
    except (ServiceDownError, ServiceRefusalError) as error:
        log.info("progress was not reported: %s", error)
