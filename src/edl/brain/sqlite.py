"""The Brain's tables in one SQLite file. Writes that arrive during a commit are committed together in the next.

Acknowledged writes survive a crash of the process; a power failure may lose the last seconds. A file that disappears
(an unmounted volume) is noticed before each use and reopened when it is back; nothing is written to an unlinked file.
"""

import asyncio
import functools
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from edl.brain.database import MIGRATIONS, Row, Statement, UnavailableError

T = TypeVar("T")
BUSY = 2.0  # seconds to wait for a lock that another process holds
MOST = 512  # writes in one commit


class SqliteDatabase:
    """One connection writes and another one reads, each in its own thread: a query does not wait for a commit or a
    checkpoint."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._writing, self._reading = _Connection(self._path), _Connection(self._path)
        self._waiting: list[tuple[Sequence[Statement], asyncio.Future[int]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._writing.run(lambda: self._writing.open(create=True))

    async def write(self, statements: Sequence[Statement]) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((statements, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        return await done

    async def fetch(self, *queries: Statement) -> list[Sequence[Row]]:
        return await self._reading.run(lambda: _rows(self._reading.get(), queries))

    async def close(self) -> None:
        if self._writer is not None:
            await asyncio.gather(self._writer, return_exceptions=True)
        await self._reading.end()
        await self._writing.end()

    async def _write_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            writes = [statements for statements, _ in batch]
            try:
                changed = await self._writing.run(lambda writes=writes: _commit(self._writing.get(), writes))  # type: ignore[misc]
            except UnavailableError as error:
                for _, done in batch:
                    if not done.done():
                        done.set_exception(UnavailableError(str(error)))
                continue
            for (_, done), count in zip(batch, changed, strict=True):
                if not done.done():
                    done.set_result(count)


class _Connection:
    """A connection and its only thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    async def run(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            raise UnavailableError(f"{self._path}: {error}") from error

    async def end(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown()

    def get(self) -> sqlite3.Connection:
        if self._connection is not None and self._inode != _inode(self._path):
            self._disconnect()
        return self._connection or self.open(create=False)

    def open(self, *, create: bool) -> sqlite3.Connection:
        if create:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        elif not self._path.exists():
            raise FileNotFoundError("the database file is gone")
        connection = sqlite3.connect(self._path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            _migrate(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._inode = connection, _inode(self._path)
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _commit(connection: sqlite3.Connection, writes: Sequence[Sequence[Statement]]) -> list[int]:
    """In one transaction: how many rows the first statement of each changed."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        changed = [_write(connection, statements) for statements in writes]
        connection.execute("COMMIT")
        return changed
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _write(connection: sqlite3.Connection, statements: Sequence[Statement]) -> int:
    counts = [connection.execute(_positional(sql), arguments).rowcount for sql, arguments in statements]
    return counts[0] if counts else 0


def _rows(connection: sqlite3.Connection, queries: Sequence[Statement]) -> list[Sequence[Row]]:
    """The rows of each query, from one snapshot."""
    connection.execute("BEGIN")
    try:
        return [connection.execute(_positional(sql), arguments).fetchall() for sql, arguments in queries]
    finally:
        connection.execute("ROLLBACK")


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def _migrate(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),):
        return  # without a lock, so that reads do not wait for writers
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        connection.execute("ROLLBACK")
        raise sqlite3.DatabaseError(f"its tables are of version {version}, newer than this Brain's {len(MIGRATIONS)}")
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        for statement in statements:
            words = {"serial": "INTEGER PRIMARY KEY AUTOINCREMENT", "slash": "instr(job, '/')"}
            connection.execute(statement.format(**words))
        connection.execute(f"PRAGMA user_version = {number}")
    connection.execute("COMMIT")


@functools.cache
def _positional(sql: str) -> str:
    return re.sub(r"\$(\d+)", r"?\1", sql)
