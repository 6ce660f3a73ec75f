"""Copies of Brain's SQLite history: one that is consistent while Brain writes, and one put back in its place.

A history in PostgreSQL is copied by PostgreSQL's own tools.
"""

import contextlib
import sqlite3
import tempfile
from pathlib import Path

_MAGIC = b"SQLite format 3\x00"


class NoHistoryError(ValueError):
    """There is nothing to copy, or what was given is no history; the message says which."""


def copy_of(database: Path) -> bytes:
    """The whole history, as it is at one moment."""
    if not database.exists():
        raise NoHistoryError(f"there is no history at {database}")
    with tempfile.TemporaryDirectory(dir=database.parent) as directory:
        target = Path(directory) / "copy.db"
        with (
            contextlib.closing(sqlite3.connect(database)) as source,
            contextlib.closing(sqlite3.connect(target)) as into,
        ):
            source.backup(into)
        return target.read_bytes()


def put_back(database: Path, copy: bytes) -> None:
    """In one transaction, also while Brain runs; restart it afterwards, for it remembers what was there."""
    if not copy.startswith(_MAGIC):
        raise NoHistoryError("this is no copy of Brain's history: `edl brain backup` makes one")
    database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=database.parent) as directory:
        source_path = Path(directory) / "copy.db"
        source_path.write_bytes(copy)
        with (
            contextlib.closing(sqlite3.connect(source_path)) as source,
            contextlib.closing(sqlite3.connect(database)) as into,
        ):
            if not source.execute("SELECT count(*) FROM sqlite_master WHERE name = 'jobs'").fetchone()[0]:
                raise NoHistoryError("this database is not Brain's: it has no table of jobs")
            source.backup(into)
