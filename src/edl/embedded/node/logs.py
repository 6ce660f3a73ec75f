"""Reading container logs back: `kubectl logs` with all its options, and the last lines for a status."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edl.api import timestamp

_BLOCK = 1 << 16
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    tail_lines: int | None = None
    since: float | None = None
    """Seconds since 1970."""
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ""
    """`stdout` or `stderr`; both if empty."""


def files_of(log: Path) -> list[Path]:
    """The log and what was rotated away, oldest first."""
    rotated = sorted(log.parent.glob(f"{log.name}.*"), key=lambda path: -int(path.suffix[1:]))
    return [*rotated, *([log] if log.exists() else [])]


def tail(log: Path, *, lines: int) -> bytes:
    return b"".join(_shown(line, LogOptions()) for line in _last_lines(log, lines))


async def read(log: Path, options: LogOptions, *, follow: Callable[[], bool] | None = None) -> AsyncIterator[bytes]:
    """The log in pieces. With `follow`, also what is added, for as long as it says that more may come."""
    remaining = options.limit_bytes if options.limit_bytes is not None else float("inf")
    position = _Position(log)
    for piece in _pieces(position, options):
        yield piece[: int(min(len(piece), remaining))]
        remaining -= len(piece)
        if remaining <= 0:
            return
    while follow is not None:
        more = follow()
        for line in position.new_lines():
            shown = _shown(line, options)
            if shown:
                yield shown[: int(min(len(shown), remaining))]
                remaining -= len(shown)
                if remaining <= 0:
                    return
        if not more:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _pieces(position: "_Position", options: LogOptions) -> Iterator[bytes]:
    """What is there now. `tail_lines` counts lines, not the parts of a long one."""
    if options.tail_lines is not None:
        lines = _last_lines(position.log, options.tail_lines)
        position.skip_to_end()
        yield b"".join(_shown(line, options) for line in lines)
        return
    for path in files_of(position.log)[:-1]:
        with path.open("rb") as file:
            for line in file:
                yield _shown(line, options)
    batch: list[bytes] = []
    for line in position.new_lines():
        batch.append(_shown(line, options))
        if len(batch) >= 1000:
            yield b"".join(batch)
            batch.clear()
    yield b"".join(batch)


class _Position:
    """Where a reader is in a log that grows and may be rotated under it."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._offset = 0
        self._inode = 0

    def skip_to_end(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            status = self.log.stat()
            self._inode, self._offset = status.st_ino, status.st_size

    def new_lines(self) -> Iterator[bytes]:
        try:
            with self.log.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode:
                    yield from self._rest_of_rotated()
                    self._inode, self._offset = status.st_ino, 0
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._offset += len(line)
                    yield line
        except FileNotFoundError:
            return

    def _rest_of_rotated(self) -> Iterator[bytes]:
        for path in files_of(self.log)[:-1]:
            if path.stat().st_ino == self._inode:
                with path.open("rb") as file:
                    file.seek(self._offset)
                    yield from file


def _shown(line: bytes, options: LogOptions) -> bytes:
    """A stored line as its reader wants it; nothing if it does not."""
    time, stream, tag, text = line.split(b" ", 3)
    if options.stream and stream.decode() != options.stream:
        return b""
    if options.since is not None and timestamp.seconds(time.decode()[:26] + "Z") < options.since:
        return b""
    if tag == b"P":
        text = text[:-1]
    return time + b" " + text if options.timestamps else text


def _last_lines(log: Path, count: int) -> list[bytes]:
    lines: list[bytes] = []
    for path in reversed(files_of(log)):
        if _complete(lines) >= count:
            break
        lines = _end_of(path, count - _complete(lines)) + lines
    surplus = _complete(lines) - count
    while surplus > 0 or (count == 0 and lines):
        surplus -= _is_full(lines[0])
        lines.pop(0)
    return lines


def _end_of(path: Path, count: int) -> list[bytes]:
    """At least the last `count` whole lines of a file, read from its end."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        data = b""
        while position > 0 and data.count(b"\n") <= 2 * count:
            step = min(_BLOCK, position)
            position -= step
            file.seek(position)
            data = file.read(step) + data
    lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
    return lines[1:] if position > 0 else lines


def _complete(lines: list[bytes]) -> int:
    """How many lines a reader would count: the parts of a long one are one, and so is an unfinished last one."""
    full = sum(map(_is_full, lines))
    return full + bool(lines and not _is_full(lines[-1]))


def _is_full(line: bytes) -> bool:
    return line.split(b" ", 3)[2] == b"F"
