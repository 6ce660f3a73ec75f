"""Lines that training processes wrote and that nobody took yet, each with its time: the newest, up to a size.

Adding waits for nothing but another thread's adding or taking. Needs the standard library alone.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timezone

MOST = 1 << 20
LONGEST = 16 << 10  # bytes of a line; a longer one becomes several


class Backlog:
    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.time) -> None:
        self._most, self._clock = most, clock
        self._lines: deque[bytes] = deque()
        self._bytes, self._lost = 0, 0
        self._begun: dict[int, bytes] = {}  # by stream: the line that has no end yet
        self._lock = threading.Lock()

    def add(self, stream: int, block: bytes) -> None:
        """An empty block ends the stream."""
        with self._lock:
            begun = self._begun.get(stream, b"")
            if block and b"\n" not in block and len(begun) + len(block) <= LONGEST:
                self._begun[stream] = begun + block  # `print` writes a line word by word
                return
            *whole, rest = (begun + (block or b"\n")).split(b"\n")
            while len(rest) > LONGEST:
                whole.append(rest[:LONGEST])
                rest = rest[LONGEST:]
            self._begun[stream] = rest
            if not block and not whole[-1]:
                whole.pop()  # nothing was begun
            time_of = self._time()
            for line in whole:
                self._append(time_of + line[:LONGEST] + b"\n")

    def _append(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)
        while self._bytes > self._most:
            self._bytes -= len(self._lines.popleft())
            self._lost += 1

    def take(self, most: int) -> bytes:
        """The oldest lines, at most so many bytes of them; says so if there were older ones."""
        with self._lock:
            taken: list[bytes] = []
            if self._lost:
                taken.append(self._time() + f"edl: {self._lost} lines before this one were not kept\n".encode())
                self._lost = 0
            size = 0
            while self._lines and (not size or size + len(self._lines[0]) <= most):
                taken.append(self._lines.popleft())
                size += len(taken[-1])
            self._bytes -= size
            return b"".join(taken)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def _time(self) -> bytes:
        """As Kubernetes has it in front of a line."""
        now = datetime.fromtimestamp(self._clock(), timezone.utc)  # noqa: UP017 - pods may have Python 3.10
        return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ ").encode()
