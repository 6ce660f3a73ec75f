"""The database interface of the Brain, and its tables as a list of migrations.

SQL is written once, with $1, $2 for arguments and what SQLite and PostgreSQL both understand.
"""

from collections.abc import Sequence
from typing import Any, Protocol

Statement = tuple[str, Sequence[Any]]
Row = Sequence[Any]

# Each entry migrates a database from one version to the next; a released entry is never edited.
# {serial} is an auto-incrementing key that never repeats, {slash} the place of the first slash in a job's name.
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
    (
        "ALTER TABLE jobs ADD COLUMN namespace TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE incidents ADD COLUMN time DOUBLE PRECISION NOT NULL DEFAULT 0",
        "CREATE INDEX jobs_namespace ON jobs (namespace, bytes)",
        "UPDATE jobs SET namespace = substr(job, 1, {slash} - 1)",
        "UPDATE jobs SET bytes = length(features)"
        " + (SELECT coalesce(sum(length(data)), 0) FROM samples WHERE samples.job = jobs.job)"
        " + (SELECT coalesce(sum(length(data)), 0) FROM plans WHERE plans.job = jobs.job)"
        " + (SELECT coalesce(sum(length(data)), 0) FROM incidents WHERE incidents.job = jobs.job)",
    ),
    (
        "CREATE TABLE history_jobs (uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL,"
        " created DOUBLE PRECISION NOT NULL, updated DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION NOT NULL,"
        " line TEXT NOT NULL, manifest TEXT NOT NULL DEFAULT '', last_lines TEXT NOT NULL DEFAULT '')",
        "CREATE INDEX history_jobs_updated ON history_jobs (updated)",
        "CREATE INDEX history_jobs_name ON history_jobs (namespace, name)",
        "CREATE TABLE history_entries (uid TEXT NOT NULL, what TEXT NOT NULL, time DOUBLE PRECISION NOT NULL,"
        " data TEXT NOT NULL, PRIMARY KEY (uid, what, time))",
        "CREATE INDEX history_entries_time ON history_entries (what, time)",
        "CREATE TABLE history_cluster (time DOUBLE PRECISION PRIMARY KEY, data TEXT NOT NULL)",
    ),
    (
        "CREATE TABLE log_pods (uid TEXT NOT NULL, pod TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,"
        " leads INTEGER NOT NULL, bytes BIGINT NOT NULL, began DOUBLE PRECISION NOT NULL,"
        " updated DOUBLE PRECISION NOT NULL, PRIMARY KEY (uid, pod))",
        "CREATE INDEX log_pods_name ON log_pods (namespace, name, updated)",
        "CREATE TABLE log_chunks (uid TEXT NOT NULL, pod TEXT NOT NULL, number BIGINT NOT NULL,"
        " time DOUBLE PRECISION NOT NULL, bytes BIGINT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (uid, pod, number))",
        "CREATE INDEX log_chunks_time ON log_chunks (time)",
    ),
)


class UnavailableError(Exception):
    """The database does not answer: locked, unreachable, gone. Whether a write took place is unknown; try again."""


class Database(Protocol):
    async def open(self) -> None:
        """Connects and brings the tables to the newest version; UnavailableError if it cannot."""
        ...

    async def write(self, statements: Sequence[Statement]) -> int:
        """All of them or none, durable when it returns. How many rows the first one changed."""
        ...

    async def fetch(self, *queries: Statement) -> list[Sequence[Row]]:
        """The rows of each query, all from one snapshot."""
        ...

    async def close(self) -> None: ...


def connect(url: str) -> Database:
    """By URL: postgresql://..., or a path (sqlite:///path) of an SQLite file."""
    if url.startswith(("postgres://", "postgresql://")):
        from edl.brain.postgres import PostgresDatabase  # here, because asyncpg is an extra

        return PostgresDatabase(url)
    if "://" in url and not url.startswith("sqlite://"):
        raise ValueError(f"database is {url!r}, it must be a path, sqlite:///PATH or postgresql://...")
    from edl.brain.sqlite import SqliteDatabase

    return SqliteDatabase(url.removeprefix("sqlite://"))
