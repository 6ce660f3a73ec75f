"""What a training script of any framework says of how it goes: one call per step, by one of its workers.

    from edl.progress import Progress

    progress = Progress()
    for step in range(steps):
        ...
        if rank == 0:
            progress.add(samples=batch * world, loss=loss.item())

It is shown by `edl describe` and in metrics, and the trainer of an EasyDL job plans by it. Outside of a pod of ours
nothing is told. Scripts that take their data from `edl.trainer` need none of this: their queue knows.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping

from .runtime.environment import Environment
from .runtime.service import ServiceClient, ServiceDownError, ServiceRefusalError

log = logging.getLogger(__name__)

Tell = Callable[[dict[str, float]], None]


class Progress:
    """`every` seconds the pace since the last report is told, in a thread: no call waits for the service."""

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        *,
        every: float | None = None,
        tell: Tell | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        env = os.environ if env is None else env
        here = Environment.read(env)
        group = env.get("GROUP_WORLD_SIZE", "")  # torchrun's word for how many pods train together
        self._workers = int(group) if group.isdecimal() else None
        self._every = here.usage_seconds if every is None else every
        self._tell = tell or _teller(here)
        self._clock, self._since, self._samples = clock, clock(), 0.0
        self._under_way: threading.Thread | None = None

    def add(self, *, samples: float, loss: float | None = None) -> None:
        """Samples that all workers together have trained since the last call."""
        self._samples += samples
        now = self._clock()
        if self._tell is None or now - self._since < self._every or self._busy():
            return
        report = {"throughput": self._samples / (now - self._since)}
        if loss is not None:
            report["loss"] = loss
        if self._workers is not None:
            report["workers"] = self._workers
        self._since, self._samples = now, 0.0
        self._under_way = threading.Thread(target=self._tell, args=(report,), name="progress", daemon=True)
        self._under_way.start()

    def _busy(self) -> bool:
        """A service that is slow to answer is not asked twice."""
        return self._under_way is not None and self._under_way.is_alive()


def _teller(here: Environment) -> Tell | None:
    if not here.service_url:
        return None
    client = ServiceClient(here.service_url, here.namespace, here.job, here.token, ca=here.service_ca)

    def tell(report: dict[str, float]) -> None:
        try:
            client.progress(dict(report))
        except (ServiceDownError, ServiceRefusalError) as error:
            log.info("progress was not reported: %s", error)

    return tell
