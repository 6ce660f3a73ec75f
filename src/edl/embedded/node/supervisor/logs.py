"""Container logs on disk in the CRI format (`TIME STREAM F|P line`), with rotation.

A chunk costs one timestamp, one bytes.replace and one write, however many lines it has: lines that were read together
carry the same time, which is the time they were read.
"""

import contextlib
import os
import time

_MAX_PARTIAL = 16 * 1024


class LogWriter:
    """The log of one run of a container. `rotated` files are `<path>.1` (the newest) up to `<path>.<keep>`."""

    def __init__(self, path: str, *, max_bytes: int = 10 << 20, keep: int = 4) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._pending: dict[str, bytes] = {}
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, stream: str, chunk: bytes) -> None:
        lines, newline, rest = (self._pending.get(stream, b"") + chunk).rpartition(b"\n")
        head = f"{_now()} {stream} ".encode()
        out = b""
        if newline:
            full = head + b"F "
            out = full + lines.replace(b"\n", b"\n" + full) + b"\n"
        if len(rest) >= _MAX_PARTIAL:
            out += head + b"P " + rest + b"\n"
            rest = b""
        self._pending[stream] = rest
        if out:
            self._append(out)

    def close(self) -> None:
        """A last line without its newline is kept as a partial one, so that a reader gives back the very same bytes."""
        for stream, rest in self._pending.items():
            if rest:
                self._append(f"{_now()} {stream} P ".encode() + rest + b"\n")
        os.close(self._fd)

    def _append(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._max_bytes:
            with contextlib.suppress(OSError):  # no descriptor, no room: the next write tries again
                self._rotate()
        try:
            os.write(self._fd, data)
        except OSError:  # a full disk loses log lines and stops no training
            return
        self._size += len(data)

    def _rotate(self) -> None:
        """Makes the new file before it lets the old one go: what fails half-way leaves a log that can be written."""
        fresh = f"{self._path}.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            for number in range(self._keep, 0, -1):
                older = f"{self._path}.{number - 1}" if number > 1 else self._path
                if os.path.exists(older):
                    os.replace(older, f"{self._path}.{number}")
            os.replace(fresh, self._path)
        except OSError:
            os.close(descriptor)
            raise
        os.close(self._fd)
        self._fd, self._size = descriptor, 0


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds:09d}Z"
