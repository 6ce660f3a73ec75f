"""Reads container logs back: `kubectl logs` with all its options, and the last lines for a status.

Logs are rotated while they are read: names move on, so a reader holds on to open files, which stay what they were.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from edl.api.kubernetes import timestamp

_BLOCK = 1 << 16
_POLL_SECONDS = 0.1
_TRIES = 100


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    tail_lines: int | None = None
    since: float | None = None
    """Seconds since 1970."""
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ""
    """`stdout` or `stderr`; both if empty."""


def files_of(log: Path) -> list[Path]:
    """The log and what was rotated away, oldest first."""
    found = [path for path in log.parent.glob(f"{log.name}.*") if path.suffix[1:].isdecimal()]
    rotated = sorted(found, key=lambda path: -int(path.suffix[1:]))
    return [*rotated, *([log] if log.exists() else [])]


@contextmanager
def _opened(log: Path) -> Iterator[Sequence[BinaryIO]]:
    """The same files, open, as they were at one moment."""
    for _ in range(_TRIES):
        with ExitStack() as stack:
            try:
                files = [stack.enter_context(path.open("rb")) for path in files_of(log)]
                same = [_inode(file) for file in files] == [path.stat().st_ino for path in files_of(log)]
            except FileNotFoundError:
                continue  # rotated away in this moment
            if same:
                yield files
                return
    raise OSError(f"{log} is rotated faster than it can be opened")


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def tail(log: Path, *, lines: int) -> bytes:
    with _opened(log) as files:
        return b"".join(_shown(line, LogOptions()) for line in _last_lines(files, lines))


async def read(log: Path, options: LogOptions, *, follow: Callable[[], bool] | None = None) -> AsyncIterator[bytes]:
    """The log in pieces. With `follow`, also what is added, for as long as it says that more may come."""
    remaining = options.limit_bytes if options.limit_bytes is not None else float("inf")
    with closing(_Position(log)) as position:
        for piece in _pieces(log, position, options):
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


def _pieces(log: Path, position: "_Position", options: LogOptions) -> Iterator[bytes]:
    """What is there now. `tail_lines` counts lines, not the parts of a long one."""
    if options.tail_lines is not None:
        with _opened(log) as files:
            lines = _last_lines(files, options.tail_lines)
            position.begin(files, at_end=True)
        yield b"".join(_shown(line, options) for line in lines)
        return
    with _opened(log) as files:
        position.begin(files, at_end=False)
    batch: list[bytes] = []
    for line in position.new_lines():
        batch.append(_shown(line, options))
        if len(batch) >= 1000:
            yield b"".join(batch)
            batch.clear()
    yield b"".join(batch)


class _Position:
    """Where a reader is in a log that grows and may be rotated under it, many times between two looks."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._files: list[BinaryIO] = []  # of which all but the first are yet to be read

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files = []

    def begin(self, files: Sequence[BinaryIO], *, at_end: bool) -> None:
        """At the first of these, or at the end of the last."""
        self.close()
        wanted, whence = (files[-1:], os.SEEK_END) if at_end else (files, os.SEEK_SET)
        self._files = [_own(file, whence) for file in wanted]

    def new_lines(self) -> Iterator[bytes]:
        while True:
            self._find_newer()
            if not self._files:
                return
            yield from self._lines(self._files[0])
            if len(self._files) == 1:
                return
            self._files.pop(0).close()

    def _find_newer(self) -> None:
        """Opens what came after the newest file at hand. If that is no longer there, all that is there came after."""
        with _opened(self._log) as files:
            known = [_inode(file) for file in files]
            newest = _inode(self._files[-1]) if self._files else 0
            first = known.index(newest) + 1 if newest in known else 0
            self._files += [_own(file, os.SEEK_SET) for file in files[first:]]

    @staticmethod
    def _lines(file: BinaryIO) -> Iterator[bytes]:
        """Whole ones; the rest of a line is read when it is there."""
        while line := file.readline():
            if not line.endswith(b"\n"):
                file.seek(-len(line), os.SEEK_CUR)
                return
            yield line


def _own(file: BinaryIO, whence: int) -> BinaryIO:
    """The same open file for whoever outlives the block in which it was opened, at its begin or end."""
    own = os.fdopen(os.dup(file.fileno()), "rb")
    own.seek(0, whence)
    return own


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


def _last_lines(files: Sequence[BinaryIO], count: int) -> list[bytes]:
    lines: list[bytes] = []
    for file in reversed(files):
        if _complete(lines) >= count:
            break
        lines = _end_of(file, count - _complete(lines)) + lines
    surplus = _complete(lines) - count
    while surplus > 0 or (count == 0 and lines):
        surplus -= _is_full(lines[0])
        lines.pop(0)
    return lines


def _end_of(file: BinaryIO, count: int) -> list[bytes]:
    """At least the last `count` whole lines of a file, read from its end."""
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
