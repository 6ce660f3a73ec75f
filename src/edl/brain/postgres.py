"""The Brain's tables in PostgreSQL, shared by several Brains. Needs asyncpg, the extra `postgres`."""

import asyncio
from collections.abc import Sequence
from typing import Any

from edl.brain.database import MIGRATIONS, Row, Statement, UnavailableError

try:
    import asyncpg
except ImportError as error:
    raise ImportError("PostgreSQL needs asyncpg: pip install 'edl-train[postgres]'") from error

TIMEOUT = 5.0
LOCK = 0x65646C  # advisory lock: only one Brain migrates
_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError)


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        async with self._opening:
            if self._pool is None:
                try:
                    pool = await asyncpg.create_pool(
                        self._url, min_size=0, max_size=8, timeout=TIMEOUT, command_timeout=TIMEOUT
                    )
                    async with pool.acquire(timeout=TIMEOUT) as connection, connection.transaction():
                        await _migrate(connection)
                except _ERRORS as error:
                    raise UnavailableError(_message(error)) from error
                self._pool = pool

    async def write(self, statements: Sequence[Statement]) -> int:
        await self.open()
        try:
            async with self._pool.acquire(timeout=TIMEOUT) as connection, connection.transaction():
                tags = [await connection.execute(sql, *arguments) for sql, arguments in statements]
                return int(tags[0].split()[-1]) if tags else 0  # "UPDATE 1", "INSERT 0 1"
        except _ERRORS as error:
            raise UnavailableError(_message(error)) from error

    async def fetch(self, *queries: Statement) -> list[Sequence[Row]]:
        await self.open()
        try:
            async with (
                self._pool.acquire(timeout=TIMEOUT) as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                return [await connection.fetch(sql, *arguments) for sql, arguments in queries]
        except _ERRORS as error:
            raise UnavailableError(_message(error)) from error

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None


async def _migrate(connection: Any) -> None:
    await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
    await connection.execute("CREATE TABLE IF NOT EXISTS edl_brain (version INTEGER NOT NULL)")
    version = await connection.fetchval("SELECT version FROM edl_brain")
    if version is None:
        version = 0
        await connection.execute("INSERT INTO edl_brain VALUES (0)")
    if version > len(MIGRATIONS):
        raise OSError(f"its tables are of version {version}, newer than this Brain's {len(MIGRATIONS)}")
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            words = {"serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "slash": "strpos(job, '/')"}
            await connection.execute(statement.format(**words))
    await connection.execute("UPDATE edl_brain SET version = $1", len(MIGRATIONS))


def _message(error: BaseException) -> str:
    return f"PostgreSQL: {error or type(error).__name__}"
