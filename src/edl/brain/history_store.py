"""The history of all jobs and of the cluster in the Brain's database: what the operator posts, kept beyond the jobs.

Everything is idempotent: a job is keyed by its uid, its entries by their time, accounts by their hour. What is kept is
bounded by age and by size (`HistoryBounds`); who is thrown out first never depends on another namespace's wishes: the
oldest jobs that have ended, of the namespace that has most.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from edl.brain.database import Database, Row, Statement
from edl.ledger.amounts import NOTHING, Amounts
from edl.ledger.job_account import JobAccount
from edl.ledger.report import PeriodLine, PeriodReport, by_namespace, period_of
from edl.ledger.uses import CapacityUse
from edl.protocol.history import (
    ClusterPoint,
    HistoryBatch,
    HistoryLine,
    JobNews,
    JobPast,
    KeptEvent,
    ProgressPoint,
    SizeChange,
)

T = TypeVar("T")
SIZE, POINT, EVENT, ACCOUNT = "size", "point", "event", "account"
MOST = {SIZE: 1000, POINT: 4000, EVENT: 500, ACCOUNT: 2200}
"""Entries kept of each job; the newest."""
HOUR = 3600.0
DAY = 24 * HOUR
EVERY = 600.0  # seconds between two rounds of forgetting
SPARE = 0.9  # of the size that is left once it was too much
REPORTED = 50_000  # jobs in a report


class HistoryBounds(msgspec.Struct, frozen=True, kw_only=True):
    days: float = 90.0
    mebibytes: float = 256.0

    @property
    def bytes(self) -> float:
        return self.mebibytes * (1 << 20)


class HistoryStore:
    """`namespace` of a reader: empty sees all."""

    def __init__(self, database: Database, bounds: HistoryBounds = HistoryBounds()) -> None:  # noqa: B008 - immutable
        self._database, self._bounds = database, bounds
        self._tidied = 0.0

    async def add(self, batch: HistoryBatch, now: float) -> None:
        """All of it or nothing. An account that tells of no time does not replace one that does."""
        jobs = [await self._with_known_account(news) for news in batch.jobs]
        statements = [statement for news in jobs for statement in _statements(news)]
        statements += [(_CLUSTER, (point.time, _text(point))) for point in batch.cluster]
        if statements:
            await self._database.write(statements)
        if now - self._tidied >= EVERY or now < self._tidied:
            self._tidied = now
            await self.forget(now)

    async def _with_known_account(self, news: JobNews) -> JobNews:
        """A leader that never read what its predecessor kept of a job posts an empty account of it."""
        if news.job.account.seconds > 0:
            return news
        (rows,) = await self._database.fetch(("SELECT line FROM history_jobs WHERE uid = $1", (news.job.uid,)))
        if not rows:
            return news
        known = msgspec.json.decode(str(rows[0][0]), type=HistoryLine).account
        return msgspec.structs.replace(news, job=msgspec.structs.replace(news.job, account=known))

    async def forget(self, now: float) -> None:
        """What is too old, and what is too much."""
        oldest = now - self._bounds.days * DAY
        await self._database.write(
            [
                ("DELETE FROM history_entries WHERE time < $1 AND what <> 'account'", (oldest,)),
                ("DELETE FROM history_entries WHERE time < $1 AND what = 'account'", (oldest - DAY,)),
                (
                    "DELETE FROM history_entries WHERE uid IN (SELECT uid FROM history_jobs WHERE updated < $1)",
                    (oldest,),
                ),
                ("DELETE FROM history_jobs WHERE updated < $1", (oldest,)),
                ("DELETE FROM history_cluster WHERE time < $1", (oldest,)),
            ]
        )
        await self._forget_entries()
        await self._forget_jobs()

    async def _forget_entries(self) -> None:
        (rows,) = await self._database.fetch(
            (
                "SELECT uid, what, count(*) FROM history_entries GROUP BY uid, what HAVING count(*) > $1",
                (min(MOST.values()),),
            )
        )
        crowded = [(uid, what) for uid, what, count in rows if int(count) > MOST[str(what)]]
        if crowded:
            await self._database.write([(_NEWEST, (uid, what, MOST[str(what)])) for uid, what in crowded])

    async def _forget_jobs(self) -> None:
        jobs, entries = await self._database.fetch(
            (
                "SELECT uid, namespace, ended, updated, length(line) + length(manifest) + length(last_lines)"
                " FROM history_jobs ORDER BY updated",
                (),
            ),
            ("SELECT uid, sum(length(data)) FROM history_entries GROUP BY uid", ()),
        )
        held = {str(uid): int(size) for uid, size in entries}
        known = [
            Held(str(uid), str(at), bool(ended), int(size) + held.get(str(uid), 0)) for uid, at, ended, _, size in jobs
        ]
        gone = to_forget(known, self._bounds.bytes)
        tables = ("history_entries", "history_jobs")
        if gone:
            await self._database.write(
                [(f"DELETE FROM {table} WHERE uid = $1", (uid,)) for uid in gone for table in tables]
            )

    async def lines(self, *, since: float, namespace: str = "", limit: int = 1000) -> list[HistoryLine]:
        """Jobs that lived then or later, the newest first."""
        sql = (
            "SELECT line FROM history_jobs WHERE updated >= $1 AND ($2 = '' OR namespace = $2)"
            " ORDER BY created DESC, uid LIMIT $3"
        )
        (rows,) = await self._database.fetch((sql, (since, namespace, limit)))
        return list(_decode_all(rows, tuple[HistoryLine, ...]))

    async def named(self, namespace: str, name: str) -> str | None:
        """The uid of the newest job of that name."""
        sql = "SELECT uid FROM history_jobs WHERE namespace = $1 AND name = $2 ORDER BY created DESC LIMIT 1"
        (rows,) = await self._database.fetch((sql, (namespace, name)))
        return str(rows[0][0]) if rows else None

    async def past(self, namespace: str, name: str, uid: str) -> JobPast | None:
        entries = "SELECT data FROM history_entries WHERE uid = $1 AND what = $2 ORDER BY time"
        jobs, sizes, points, events, accounts = await self._database.fetch(
            (
                "SELECT line, manifest, last_lines FROM history_jobs WHERE uid = $1 AND namespace = $2 AND name = $3",
                (uid, namespace, name),
            ),
            *((entries, (uid, what)) for what in (SIZE, POINT, EVENT, ACCOUNT)),
        )
        if not jobs:
            return None
        line, manifest, last_lines = jobs[0]
        return JobPast(
            job=msgspec.json.decode(str(line), type=HistoryLine),
            manifest=str(manifest),
            last_lines=str(last_lines),
            sizes=_decode_all(sizes, tuple[SizeChange, ...]),
            points=_decode_all(points, tuple[ProgressPoint, ...]),
            events=_decode_all(events, tuple[KeptEvent, ...]),
            accounts=_decode_all(accounts, tuple[JobAccount, ...]),
        )

    async def cluster(self, since: float, until: float, most: int = 0) -> list[ClusterPoint]:
        """At most so many points, each then the mean of several."""
        points = await self._cluster(since, until)
        return thinned(points, most) if most else points

    async def _cluster(self, since: float, until: float) -> list[ClusterPoint]:
        sql = "SELECT data FROM history_cluster WHERE time > $1 AND time <= $2 ORDER BY time"
        (rows,) = await self._database.fetch((sql, (since, until)))
        return list(_decode_all(rows, tuple[ClusterPoint, ...]))

    async def report(
        self,
        since: float,
        until: float,
        *,
        namespace: str = "",
        cluster: bool,
        visible: Callable[[HistoryLine], bool] = lambda line: True,
    ) -> PeriodReport:
        """Of jobs that lived in the period. From accounts by the hour: exact in sum, in proportion within an hour."""
        lived = await self.lines(since=since, namespace=namespace, limit=REPORTED)
        lines = [line for line in lived if line.created < until and visible(line)]
        around = await self._accounts_around(since, until)
        jobs = tuple(
            found for line in lines if (found := _period(line, around.get(line.uid, []), since, until)) is not None
        )
        points = await self.cluster(since, until) if cluster else []
        capacity, uses = _integrated(points)
        return PeriodReport(
            since=since,
            until=until,
            namespaces=by_namespace(jobs),
            jobs=jobs,
            capacity=capacity,
            cluster=uses,
            observed=sum(point.seconds for point in points),
        )

    async def _accounts_around(self, *moments: float) -> dict[str, list[JobAccount]]:
        """Of every job the last account before each moment and the first one after it."""
        queries: list[Statement] = []
        for moment in moments:
            queries.append((_NEAREST.format(best="max", order="<="), (moment,)))
            queries.append((_NEAREST.format(best="min", order=">"), (moment,)))
        found: dict[str, dict[float, JobAccount]] = {}
        for rows in await self._database.fetch(*queries):
            for uid, time, data in rows:
                found.setdefault(str(uid), {})[float(time)] = msgspec.json.decode(str(data), type=JobAccount)
        return {uid: [accounts[time] for time in sorted(accounts)] for uid, accounts in found.items()}


class Held(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    ended: bool
    bytes: int


def to_forget(jobs: Sequence[Held], most: float) -> list[str]:
    """Uids of those that go if all have more than `most` bytes. `jobs` in the order of age; who lives is left alone."""
    total = sum(job.bytes for job in jobs)
    if total <= most:
        return []
    sizes: dict[str, int] = {}
    ended: dict[str, list[Held]] = {}
    for job in jobs:
        sizes[job.namespace] = sizes.get(job.namespace, 0) + job.bytes
        if job.ended:
            ended.setdefault(job.namespace, []).append(job)
    gone: list[str] = []
    while total > most * SPARE and ended:
        largest = max(ended, key=lambda namespace: (sizes[namespace], namespace))
        job = ended[largest].pop(0)
        if not ended[largest]:
            del ended[largest]
        gone.append(job.uid)
        total -= job.bytes
        sizes[largest] -= job.bytes
    return gone


def _statements(news: JobNews) -> list[Statement]:
    line, uid = news.job, news.job.uid
    times = (line.created, line.updated, line.ended or 0.0)
    job = (uid, line.namespace, line.name, *times, _text(line))
    hour = line.account.until // HOUR * HOUR
    entries = [
        *((SIZE, one.time, one) for one in news.sizes),
        *((POINT, one.time, one) for one in news.points),
        *((EVENT, one.time, one) for one in news.events),
        (ACCOUNT, hour, line.account),
    ]
    return [
        (_JOB, (*job, _plain(news.manifest), _plain(news.last_lines))),
        *((_ENTRY, (uid, what, time, _text(one))) for what, time, one in entries),
    ]


def _period(line: HistoryLine, accounts: list[JobAccount], since: float, until: float) -> PeriodLine | None:
    known = {account.until: account for account in [*accounts, line.account]}
    found = period_of([known[time] for time in sorted(known)], since, until)
    if found is None:
        return None
    return PeriodLine(
        namespace=line.namespace,
        name=line.name,
        uid=line.uid,
        outcome=line.outcome,
        spent=found.spent,
        changes=found.changes,
        estimated=found.estimated,
    )


def thinned(points: Sequence[ClusterPoint], most: int) -> list[ClusterPoint]:
    """Means over equal numbers of points; of the largest jobs those of the last one."""
    several = -(-len(points) // most)
    if several <= 1:
        return [*points]
    return [_mean(points[start : start + several]) for start in range(0, len(points), several)]


def _mean(points: Sequence[ClusterPoint]) -> ClusterPoint:
    last, seconds = points[-1], sum(point.seconds for point in points)
    capacity, uses = _integrated(points)
    share = 1 / seconds if seconds else 0.0
    return msgspec.structs.replace(
        last,
        seconds=seconds,
        capacity=capacity * share,
        uses={use: amounts * share for use, amounts in uses.items()},
        estimated=any(point.estimated for point in points),
    )


def _integrated(points: Iterable[ClusterPoint]) -> tuple[Amounts, dict[CapacityUse, Amounts]]:
    capacity, uses = NOTHING, dict[CapacityUse, Amounts]()
    for point in points:
        capacity += point.capacity * point.seconds
        for use, amounts in point.uses.items():
            uses[use] = uses.get(use, NOTHING) + amounts * point.seconds
    return capacity, uses


_JOB = (
    "INSERT INTO history_jobs (uid, namespace, name, created, updated, ended, line, manifest, last_lines)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
    " ON CONFLICT (uid) DO UPDATE SET updated = excluded.updated, ended = excluded.ended, line = excluded.line,"
    " manifest = CASE WHEN excluded.manifest = '' THEN history_jobs.manifest ELSE excluded.manifest END,"
    " last_lines = CASE WHEN excluded.last_lines = '' THEN history_jobs.last_lines ELSE excluded.last_lines END"
    " WHERE excluded.updated >= history_jobs.updated"
)
_ENTRY = (
    "INSERT INTO history_entries (uid, what, time, data) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (uid, what, time) DO UPDATE SET data = excluded.data"
)
_CLUSTER = (
    "INSERT INTO history_cluster (time, data) VALUES ($1, $2) ON CONFLICT (time) DO UPDATE SET data = excluded.data"
)
_NEWEST = (
    "DELETE FROM history_entries WHERE uid = $1 AND what = $2 AND time NOT IN"
    " (SELECT time FROM history_entries WHERE uid = $1 AND what = $2 ORDER BY time DESC LIMIT $3)"
)
_NEAREST = (
    "SELECT history_entries.uid, history_entries.time, data FROM history_entries JOIN"
    " (SELECT uid, {best}(time) AS time FROM history_entries WHERE what = 'account' AND time {order} $1 GROUP BY uid)"
    " nearest ON history_entries.uid = nearest.uid AND history_entries.time = nearest.time"
    " WHERE what = 'account'"
)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _plain(text: str) -> str:
    """Without NUL, which PostgreSQL's text cannot hold."""
    return text.replace("\0", "")


def _decode_all(rows: Iterable[Row], kind: type[T]) -> T:
    return msgspec.json.decode(f"[{','.join(str(data) for (data,) in rows)}]", type=kind)
