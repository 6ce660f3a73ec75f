"""Descriptors and the like that run out: one is kept to refuse others with, and notices are at most one a minute."""

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

INTERVAL = 60.0
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Notice:
    """Logs the first time at once and the rest once a minute, with how often it happened. For any thread."""

    def __init__(self, log: logging.Logger, text: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._text, self._clock = log, text, clock
        self._times, self._next = 0, float("-inf")
        self._lock = threading.Lock()

    def __call__(self, *details: object) -> None:
        """`details` are the arguments of the text."""
        with self._lock:
            self._times += 1
            now = self._clock()
            if now < self._next:
                return
            times, self._times, self._next = self._times, 0, now + INTERVAL
        again = f" ({times} times since the last notice)" if times > 1 else ""
        self._log.warning(self._text + again, *details)


class SpareDescriptor:
    """With it a connection can be accepted, and closed, when there is no other."""

    def __init__(self) -> None:
        self._held: int | None = None

    def open(self) -> None:
        if self._held is None:
            with contextlib.suppress(OSError):
                self._held = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """There is a free descriptor meanwhile, if any was to be had before."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)
        try:
            yield
        finally:
            self.open()


SPARE = SpareDescriptor()
"""One for the process."""
