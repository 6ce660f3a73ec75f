"""Recovers a damaged store: keeps the file as it is and builds a new one from every row that can still be read.

Nothing is lost silently: the result lists how many objects came back, which revisions did not, and where the damaged
file is. History is not restored; every watch starts anew.
"""

import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import msgspec

from edl.embedded.server.storage.log_check import check_log, mend_log
from edl.embedded.server.storage.store_file import FORMAT, Row, StoreFile, connect, row

_GAP = 10_000  # revisions that clients may have seen and that could not be read must not be given out again
_LONGEST_LEAP = 1 << 40


class Recovery(msgspec.Struct, frozen=True):
    restored: int
    by_resource: dict[str, int]
    """How many of them are of each resource."""
    log: str
    """The state of the write-ahead log, if that was damaged."""
    damaged: tuple[str, ...]
    """Rows that cannot be trusted: one line per row, or per place in the file."""
    kept: Path
    """The damaged file, untouched."""


def recover(path: Path) -> Recovery:
    """Replace the store at `path`, which must not be open. Until the new one is whole, the damaged one stays in place:
    a recovery that is interrupted leaves a store that still refuses to open, never an empty one."""
    kept = _keep(path)
    log = check_log(Path(f"{kept}-wal"))
    rows, damaged = _salvage(kept)
    live: dict[tuple[str, str, str], Row] = {}
    for found in rows:
        key = (found.resource, found.namespace, found.name)
        if found.deleted:
            live.pop(key, None)
        else:
            live[key] = found
    newest = max((found.rv for found in rows), default=0) + _GAP
    fresh = path.with_name(f"{path.name}.recovered")
    _remove(fresh)
    file = StoreFile(fresh)
    try:
        file.write(sorted(live.values()), garbage=(), compacted=newest)
    finally:
        file.close()
    _remove(path, "-wal", "-shm")
    fresh.replace(path)
    _remove(fresh)
    return Recovery(len(live), dict(Counter(resource for resource, _, _ in live)), log.damage, tuple(damaged), kept)


def _keep(path: Path) -> Path:
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    _copy(path, kept)
    return kept


def _copy(path: Path, to: Path) -> None:
    for suffix in ("-wal", ""):
        if Path(f"{path}{suffix}").exists():
            shutil.copy2(f"{path}{suffix}", f"{to}{suffix}")


def _remove(path: Path, *suffixes: str) -> None:
    for suffix in suffixes or ("", "-wal", "-shm", ".lock"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _salvage(kept: Path) -> tuple[list[Row], list[str]]:
    """Reads row by row from a copy and skips broken pages."""
    copy = kept.with_name(f"{kept.name}.reading")
    _copy(kept, copy)
    log = Path(f"{copy}-wal")
    if check_log(log).damage:
        mend_log(log, _page_size(kept))
    try:
        return _read_rows(copy)
    finally:
        _remove(copy)


def _page_size(file: Path) -> int:
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(18)[16:18], "big")
    return {0: 4096, 1: 65536}.get(size, size)


def _version(db: sqlite3.Connection) -> int:
    """The format of the rows. One that cannot be read any more is taken for the present one."""
    try:
        return int(dict(db.execute("SELECT name, value FROM setting"))["format"])
    except (sqlite3.DatabaseError, KeyError, ValueError, TypeError):
        return FORMAT


def _read_rows(copy: Path) -> tuple[list[Row], list[str]]:
    rows: list[Row] = []
    damaged: list[str] = []
    try:
        db = connect(copy)
    except sqlite3.DatabaseError as error:
        return rows, [f"the whole file: {error}"]
    after, leap, version = 0, 1, _version(db)
    try:
        while leap < _LONGEST_LEAP:
            try:
                values = db.execute("SELECT * FROM revision WHERE rv > ? ORDER BY rv LIMIT 1", (after,)).fetchone()
            except sqlite3.DatabaseError as error:
                if leap == 1:
                    damaged.append(f"after revision {after}: {error}")
                after, leap = after + leap, leap * 2
                continue
            if values is None:
                break
            found = Row(*values)
            after, leap = found.rv, 1
            if found.intact(version):
                rows.append(row(*found[:6]))
            else:
                damaged.append(f"revision {found.rv}: {found.resource} {found.namespace}/{found.name}")
    finally:
        db.close()
    return rows, damaged
