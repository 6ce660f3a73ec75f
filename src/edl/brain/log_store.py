"""Logs of pods in the Brain's database, for a few days: the end of each, and more of the pod that has rank 0.

Bounded by age, and by size for each pod, each namespace and in all. What is too much goes with the pods that were heard
of longest ago, of the namespace that has most. Whoever is kept counts a little more than what it wrote, so that nobody
fills the tables with nothing.
"""

from collections.abc import Sequence

import msgspec

from edl.brain.database import Database, Row
from edl.brain.history_store import DAY, Held, to_forget
from edl.protocol.kept_logs import KeptLogInfo, LogChunk

MIB = 1 << 20
POD, CHUNK = 512, 128  # bytes that one of them counts beside its lines
SLACK = 256 << 10  # so much more than its bound a pod may have before the oldest of it goes
EVERY = 30.0  # seconds between two rounds of forgetting
ONES_OWN = "/"  # between a job's uid and a pod, neither of which has one


class LogBounds(msgspec.Struct, frozen=True, kw_only=True):
    """`mebibytes` 0: none are kept."""

    days: float = 7.0
    pod_mebibytes: float = 1.0
    leading_mebibytes: float = 20.0
    namespace_mebibytes: float = 128.0
    mebibytes: float = 256.0


class LogStore:
    def __init__(self, database: Database, bounds: LogBounds = LogBounds()) -> None:  # noqa: B008 - immutable
        self._database, self._bounds = database, bounds
        self._tidied = 0.0

    @property
    def keeps(self) -> bool:
        return self._bounds.mebibytes > 0

    async def add(self, job: tuple[str, str, str], chunk: LogChunk, now: float) -> None:
        """`job`: namespace, name and uid. A chunk that is there already counts twice until its pod is counted anew."""
        namespace, name, uid = job
        lines = chunk.lines.replace("\0", "")  # PostgreSQL's text cannot hold it
        size = len(lines.encode()) + CHUNK
        await self._database.write(
            [
                (_ADD, (uid, chunk.pod, chunk.number, now, size, lines)),
                (_POD, (uid, chunk.pod, namespace, name, int(chunk.leads), size + POD, now, size)),
            ]
        )
        await self._trim(uid, chunk.pod)
        if now - self._tidied >= EVERY or now < self._tidied:
            self._tidied = now
            await self.forget(now)

    async def _trim(self, uid: str, pod: str) -> None:
        sql = "SELECT bytes, leads FROM log_pods WHERE uid = $1 AND pod = $2"
        (rows,) = await self._database.fetch((sql, (uid, pod)))
        if not rows:
            return
        stored, leads = rows[0]
        most = self._bounds.leading_mebibytes if leads else self._bounds.pod_mebibytes
        if int(stored) > most * MIB + SLACK:
            await self._database.write([(_TRIM, (uid, pod, int(most * MIB))), (_COUNT, (uid, pod, POD))])

    async def forget(self, now: float) -> None:
        """What is too old, and what is too much."""
        oldest = now - self._bounds.days * DAY
        await self._database.write(
            [
                ("DELETE FROM log_chunks WHERE time < $1", (oldest,)),
                ("DELETE FROM log_pods WHERE updated < $1", (oldest,)),
            ]
        )
        sql = "SELECT uid, pod, namespace, bytes FROM log_pods ORDER BY updated, uid, pod"
        (rows,) = await self._database.fetch((sql, ()))
        gone = [held.uid.split(ONES_OWN) for held in self._too_much([_held(row) for row in rows])]
        statements = [
            (f"DELETE FROM {table} WHERE uid = $1 AND pod = $2", (uid, pod))
            for uid, pod in gone
            for table in ("log_chunks", "log_pods")
        ]
        if statements:
            await self._database.write(statements)

    def _too_much(self, known: Sequence[Held]) -> list[Held]:
        """First of each namespace for itself, then of all."""
        gone: set[str] = set()
        for namespace in sorted({held.namespace for held in known}):
            own = [held for held in known if held.namespace == namespace]
            gone.update(to_forget(own, self._bounds.namespace_mebibytes * MIB))
        left = [held for held in known if held.uid not in gone]
        gone.update(to_forget(left, self._bounds.mebibytes * MIB))
        return [held for held in known if held.uid in gone]

    async def named(self, namespace: str, name: str) -> str | None:
        """The uid of the job of that name that was heard of last."""
        sql = "SELECT uid FROM log_pods WHERE namespace = $1 AND name = $2 ORDER BY updated DESC LIMIT 1"
        (rows,) = await self._database.fetch((sql, (namespace, name)))
        return str(rows[0][0]) if rows else None

    async def pods(self, namespace: str, name: str, uid: str) -> list[KeptLogInfo]:
        """In the order in which they began."""
        sql = (
            "SELECT pod, bytes, began, updated, leads FROM log_pods"
            " WHERE uid = $1 AND namespace = $2 AND name = $3 ORDER BY began, pod"
        )
        (rows,) = await self._database.fetch((sql, (uid, namespace, name)))
        return [
            KeptLogInfo(pod=pod, uid=uid, bytes=int(size), began=began, updated=updated, leads=bool(leads))
            for pod, size, began, updated, leads in rows
        ]

    async def lines(self, job: tuple[str, str, str], pod: str, since: float = 0.0) -> str:
        """From about then on: of chunks, whose lines are a few seconds older than they are."""
        namespace, name, uid = job
        sql = (
            "SELECT data FROM log_chunks WHERE uid = $1 AND pod = $2 AND time >= $3"
            " AND EXISTS (SELECT 1 FROM log_pods WHERE uid = $1 AND pod = $2 AND namespace = $4 AND name = $5)"
            " ORDER BY number"
        )
        (rows,) = await self._database.fetch((sql, (uid, pod, since, namespace, name)))
        return "".join(str(data) for (data,) in rows)


def _held(row: Row) -> Held:
    uid, pod, namespace, size = row
    return Held(f"{uid}{ONES_OWN}{pod}", str(namespace), True, int(size))


_ADD = (
    "INSERT INTO log_chunks (uid, pod, number, time, bytes, data) VALUES ($1, $2, $3, $4, $5, $6)"
    " ON CONFLICT (uid, pod, number) DO NOTHING"
)
_POD = (
    "INSERT INTO log_pods (uid, pod, namespace, name, leads, bytes, began, updated)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $7)"
    " ON CONFLICT (uid, pod) DO UPDATE SET updated = excluded.updated, bytes = log_pods.bytes + $8,"
    " leads = CASE WHEN excluded.leads = 1 THEN 1 ELSE log_pods.leads END"
)
_TRIM = (
    "DELETE FROM log_chunks WHERE uid = $1 AND pod = $2 AND number <= (SELECT coalesce(max(number), -1) FROM"
    " (SELECT number, bytes, CAST(sum(bytes) OVER (ORDER BY number DESC) AS BIGINT) AS newer FROM log_chunks"
    " WHERE uid = $1 AND pod = $2) AS sums WHERE newer - bytes >= $3)"
)
_COUNT = (
    "UPDATE log_pods SET bytes = $3"
    " + (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM log_chunks WHERE uid = $1 AND pod = $2)"
    " WHERE uid = $1 AND pod = $2"
)
