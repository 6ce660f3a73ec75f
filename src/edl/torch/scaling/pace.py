"""Reports to the job service how fast so many workers are, with which batch and how noisy their gradients are.

By the first rank, in a thread of its own, every few seconds: no step waits for it. A report covers a time without a
change of members. The messages are those of `POST /progress`.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

Send = Callable[[Mapping[str, object]], None]


@dataclass
class Stretch:
    """Of training with the same members."""

    since: float
    samples: int = 0


class Pace:
    """`send` may raise an OSError. Called after every step, on the thread that trains."""

    def __init__(self, send: Send, *, every: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._send, self._every, self._clock = send, every, clock
        self._generation = 0
        self._stretch = Stretch(clock())
        self._under_way: threading.Thread | None = None

    def add(self, generation: int, samples: int, figures: Callable[[], Mapping[str, Any]]) -> None:
        """A step of so many samples happened. `figures` is asked only when a report is due."""
        now = self._clock()
        if generation != self._generation:
            self._generation, self._stretch = generation, Stretch(now)  # the first step is that of the change
            return
        self._stretch.samples += samples
        span = now - self._stretch.since
        if span < self._every or (self._under_way is not None and self._under_way.is_alive()):
            return
        throughput = self._stretch.samples / span
        self._stretch = Stretch(now)
        self._start({"throughput": throughput, "span": span, **{k: v for k, v in figures().items() if v is not None}})

    def _start(self, report: Mapping[str, object]) -> None:
        self._under_way = threading.Thread(target=self._deliver, args=(report,), name="edl-pace", daemon=True)
        self._under_way.start()

    def _deliver(self, report: Mapping[str, object]) -> None:
        try:
            self._send(report)
        except OSError as error:
            log.info("the pace was not reported: %s", error)
