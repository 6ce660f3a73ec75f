"""Where the Brain's tables are: what a database must do, and the tables with their history of changes.

SQL is written once, with $1, $2 for arguments and what SQLite and PostgreSQL both understand.
"""

from collections.abc import Sequence
from typing import Any, Protocol

Statement = tuple[str, Sequence[Any]]
Row = Sequence[Any]

# Each entry brings a database from one version to the next; an entry that was released is never edited.
# {serial} is a key that counts by itself and never repeats.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE jobs (job TEXT PRIMARY KEY, features TEXT NOT NULL, created DOUBLE PRECISION NOT NULL,"
        " updated DOUBLE PRECISION NOT NULL, outcome TEXT NOT NULL DEFAULT '')",
        "CREATE INDEX jobs_updated ON jobs (updated)",
        "CREATE TABLE samples (id {serial}, job TEXT NOT NULL, time DOUBLE PRECISION NOT NULL, data TEXT NOT NULL,"
        " UNIQUE (job, time))",
        "CREATE TABLE plans (job TEXT NOT NULL, number INTEGER NOT NULL, data TEXT NOT NULL,"
        " PRIMARY KEY (job, number))",
        "CREATE TABLE lessons (seq {serial}, job TEXT NOT NULL UNIQUE, data TEXT NOT NULL)",
    ),
    ("CREATE TABLE incidents (job TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (job, data))",),
)


class UnavailableError(Exception):
    """The database does not answer: locked, unreachable, gone. Whether a write took place is unknown; try again."""


class Database(Protocol):
    async def open(self) -> None:
        """Connects and brings the tables to the newest version; UnavailableError if it cannot."""
        ...

    async def write(self, statements: Sequence[Statement]) -> None:
        """All of them or none, durable when it returns."""
        ...

    async def fetch(self, *questions: Statement) -> list[Sequence[Row]]:
        """The rows that answer each, all from the same moment."""
        ...

    async def close(self) -> None: ...


def connect(url: str) -> Database:
    """By URL: postgresql://..., or a path (sqlite:///path) of an SQLite file."""
    if url.startswith(("postgres://", "postgresql://")):
        from .postgres import PostgresDatabase  # here, because asyncpg is an extra

        return PostgresDatabase(url)
    if "://" in url and not url.startswith("sqlite://"):
        raise ValueError(f"database is {url!r}, it must be a path, sqlite:///PATH or postgresql://...")
    from .sqlite import SqliteDatabase

    return SqliteDatabase(url.removeprefix("sqlite://"))
