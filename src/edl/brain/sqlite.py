"""The Brain's tables in one SQLite file. Writes that come while one is under way are committed together.

A file that is taken away (a volume that is unmounted) is noticed before each use, and found again when it is back;
nothing is ever written to a file that has no name.
"""

import asyncio
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from .database import MIGRATIONS, Row, Statement, UnavailableError

T = TypeVar("T")
BUSY = 2.0  # seconds to wait for a lock that another process holds
MOST = 512  # writes in one commit


class SqliteDatabase:
    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._waiting: list[tuple[Sequence[Statement], asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._run(lambda: self._connect(create=True))

    async def write(self, statements: Sequence[Statement]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((statements, done))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())
        await done

    async def fetch(self, sql: str, arguments: Sequence[Any] = ()) -> Sequence[Row]:
        return await self._run(lambda: self._connected().execute(_positional(sql), arguments).fetchall())

    async def close(self) -> None:
        if self._writer is not None:
            await asyncio.gather(self._writer, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown()

    async def _write_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            statements = [statement for each, _ in batch for statement in each]
            try:
                await self._run(lambda statements=statements: self._commit(statements))  # type: ignore[misc]
            except UnavailableError as error:
                for _, done in batch:
                    if not done.done():
                        done.set_exception(UnavailableError(str(error)))
                continue
            for _, done in batch:
                if not done.done():
                    done.set_result(None)

    async def _run(self, work: Callable[[], T]) -> T:
        """In the one thread that knows the connection."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            raise UnavailableError(f"{self._path}: {error}") from error

    def _commit(self, statements: Sequence[Statement]) -> None:
        connection = self._connected()
        try:
            connection.execute("BEGIN IMMEDIATE")
            for sql, arguments in statements:
                connection.execute(_positional(sql), arguments)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._inode != _inode(self._path):
            self._disconnect()
        return self._connection or self._connect(create=False)

    def _connect(self, *, create: bool) -> sqlite3.Connection:
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


def _inode(path: Path) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        connection.execute("ROLLBACK")
        raise sqlite3.DatabaseError(f"its tables are of version {version}, newer than this Brain's {len(MIGRATIONS)}")
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        for statement in statements:
            connection.execute(statement.format(serial="INTEGER PRIMARY KEY AUTOINCREMENT"))
        connection.execute(f"PRAGMA user_version = {number}")
    connection.execute("COMMIT")


def _positional(sql: str) -> str:
    return re.sub(r"\$(\d+)", r"?\1", sql)
