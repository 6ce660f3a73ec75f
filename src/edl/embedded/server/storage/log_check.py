"""Checks SQLite's write-ahead log before SQLite reads it.

After a kill -9 the log holds transactions that were acknowledged. SQLite reads it up to the first frame that does not
match its checksum and takes that for the end: one damaged byte would silently undo everything after it. A kill leaves
only an unfinished last transaction; anything else after the last whole one is damage.

The format is that of https://sqlite.org/fileformat2.html#the_write_ahead_log.
"""

import struct
from pathlib import Path

import msgspec

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682
_WORD = 0xFFFFFFFF


class LogState(msgspec.Struct, frozen=True):
    """`damage` is empty for a log that a kill may have left. `lost` counts the transactions behind the damage whose
    end can still be seen; SQLite will not read them."""

    damage: str = ""
    lost: int = 0


_GOOD = LogState()


def check_log(path: Path) -> LogState:
    """`path` is the log itself."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return _GOOD
    if len(content) < _HEADER.size:
        return _GOOD  # it was being created
    header = _HEADER.unpack_from(content)
    order = "<" if header[0] == _MAGIC else ">"
    if header[0] & ~1 != _MAGIC or _checksum(content[:24], order, (0, 0)) != header[6:8]:
        return LogState("its header does not match its checksum", _ends(content, 0, None))
    return _check_frames(content, header, order)


def _check_frames(content: bytes, header: tuple[int, ...], order: str) -> LogState:
    size, salts, state = _FRAME.size + header[2], header[4:6], header[6:8]
    count = (len(content) - _HEADER.size) // size
    for number in range(count):
        at = _HEADER.size + number * size
        _, _, *frame_salts, first, second = _FRAME.unpack_from(content, at)
        if tuple(frame_salts) != salts:
            break
        state = _checksum(content[at : at + 8], order, state)
        state = _checksum(content[at + _FRAME.size : at + size], order, state)
        if state != (first, second):
            break
    else:
        return _GOOD
    return _judge_rest(content, number, count, size, salts)


def _judge_rest(content: bytes, number: int, count: int, size: int, salts: tuple[int, ...]) -> LogState:
    """Frame `number` ends what SQLite will read. Frames of an earlier round of the log may follow: they differ in both
    salts. One frame that was half written over such a frame may stand before them.
    """
    kinds = [_kind(content, _HEADER.size + index * size, salts) for index in range(number, count)]
    torn = kinds[0] == "ours" and len(kinds) > 1 and set(kinds[1:]) == {"earlier"}
    if set(kinds) == {"earlier"} or torn:
        return _GOOD
    return LogState(f"frame {number + 1} of {count} does not match its checksum", _ends(content, number, salts))


def _kind(content: bytes, at: int, salts: tuple[int, ...]) -> str:
    found = _FRAME.unpack_from(content, at)[2:4]
    if found == salts:
        return "ours"
    return "earlier" if found[0] != salts[0] and found[1] != salts[1] else "damaged"


def _ends(content: bytes, number: int, salts: tuple[int, ...] | None) -> int:
    """Frames from `number` on that end a transaction."""
    size = _FRAME.size + _HEADER.unpack_from(content)[2]
    if not _FRAME.size < size <= _FRAME.size + 65536:
        return 0
    places = range(_HEADER.size + number * size, len(content) - size + 1, size)
    frames = (_FRAME.unpack_from(content, at) for at in places)
    return sum(frame[1] != 0 and (salts is None or frame[2:4] == salts) for frame in frames)


def _checksum(data: bytes, order: str, state: tuple[int, ...]) -> tuple[int, ...]:
    first, second = state
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for even, odd in zip(words, words, strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return (first, second)


def mend_log(path: Path, page_size: int) -> None:
    """Rewrites the checksums of a damaged log, so that SQLite reads all of it. What is damaged in it stays damaged:
    rows have checksums of their own. For a copy, in recovery.
    """
    content = bytearray(path.read_bytes())
    if len(content) < _HEADER.size + _FRAME.size:
        return
    size = _FRAME.size + page_size
    places = range(_HEADER.size, len(content) - size + 1, size)
    salts = _salts(bytes(content), places)
    state = _checksum(header := struct.pack(">6I", _MAGIC, 3007000, page_size, 0, *salts), "<", (0, 0))
    mended = bytearray(header + struct.pack(">2I", *state))
    for at in places:
        if _kind(bytes(content[at : at + _FRAME.size]), 0, salts) == "earlier":
            continue
        state = _checksum(bytes(content[at : at + 8]), "<", state)
        state = _checksum(bytes(content[at + _FRAME.size : at + size]), "<", state)
        mended += content[at : at + 8] + struct.pack(">4I", *salts, *state) + content[at + _FRAME.size : at + size]
    path.write_bytes(mended)


def _salts(content: bytes, places: range) -> tuple[int, ...]:
    """Those of the header, unless it is the header that is damaged."""
    ours = _HEADER.unpack_from(content)[4:6]
    first = [_FRAME.unpack_from(content, at)[2:4] for at in places[:2]]
    return ours if ours in first or len(set(first)) != 1 else first[0]
