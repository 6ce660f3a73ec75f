"""Stores jobs in terms of the policy: features, samples, plans, incidents, outcomes, summaries.

A job is named namespace/name/uid. Every write is idempotent: samples are keyed by time, plans by number. Summaries are
in the table `lessons`. Of a job the newest samples, plans and incidents are kept; of a namespace no more than its quota
(`quotas`): the oldest jobs that have ended make room.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from edl.brain.database import Database, Statement
from edl.brain.policy.past_jobs import JobSummary, PastJobs, namespace_of
from edl.brain.quotas import SILENT, NamespaceUsage, Quota, QuotaExceededError
from edl.protocol.job_facts import Features, Incident, PlanRecord, Sample

T = TypeVar("T")
KEPT = 300  # samples of a job that a decision uses
KEPT_ENDED = 60  # samples kept of a job that has ended
KEPT_OTHERS = 200  # plans, and incidents, of a job
FORGET_EVERY = 16  # reports of a job
MANY = 10_000  # jobs whose reports are counted
SPARE = 0.05  # of the quota that is freed beyond the need, so that room is not made for every call
LATE = 100  # summaries that other Brains may have numbered before ours and committed after it


class JobRow(msgspec.Struct, frozen=True):
    job: str
    features: Features
    created: float
    updated: float
    outcome: str = ""


class JobHistory(msgspec.Struct, frozen=True):
    """Everything stored of one job."""

    job: JobRow
    samples: tuple[Sample, ...]
    plans: tuple[PlanRecord, ...]
    incidents: tuple[Incident, ...]


class Store:
    def __init__(self, database: Database, quota: Quota = Quota()) -> None:  # noqa: B008 - it is immutable
        self._database, self._quota = database, quota
        self._past = PastJobs(most=quota.jobs)
        self._usage = NamespaceUsage()
        self._reports: dict[str, int] = {}  # of a job since old rows were last forgotten
        self._seen = 0  # number of the newest summary read

    @property
    def database(self) -> Database:
        return self._database

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def begin(self, job: str, features: Features, now: float) -> None:
        """Also restarts a job that has ended. QuotaExceededError if the namespace may have no more."""
        data = _text(features)
        await self._make_room(job, len(data), now, beginning=True)
        sql = (
            "INSERT INTO jobs (job, namespace, features, bytes, created, updated) VALUES ($1, $2, $3, $4, $5, $5)"
            " ON CONFLICT (job) DO UPDATE SET features = excluded.features, updated = excluded.updated, outcome = ''"
        )
        await self._database.write([(sql, (job, namespace_of(job), data, len(data), now))])

    async def report(
        self,
        job: str,
        samples: Sequence[Sample],
        plans: Sequence[PlanRecord] = (),
        incidents: Sequence[Incident] = (),
        *,
        now: float,
    ) -> bool:
        """Whether there is such a job; nothing is kept of one that never began. QuotaExceededError if the namespace
        may have no more."""
        statements: list[Statement] = [(_SAMPLE, (job, each.time, _text(each))) for each in samples]
        statements += [(_PLAN, (job, each.number, _text(each))) for each in plans]
        statements += [(_INCIDENT, (job, _text(each), each.time)) for each in incidents]
        size = sum(_size(arguments) for _, arguments in statements)
        if not await self._make_room(job, size, now):
            return False
        updated = ("UPDATE jobs SET updated = $2, bytes = bytes + $3 WHERE job = $1", (job, now, size))
        return await self._database.write([updated, *statements, *self._forget_old(job)]) > 0

    def _forget_old(self, job: str) -> list[Statement]:
        """Now and then: rows that are there already count twice until then, and some are kept beyond their number."""
        if len(self._reports) > MANY:
            self._reports.clear()
        self._reports[job] = (self._reports.get(job, 0) + 1) % FORGET_EVERY
        if self._reports[job]:
            return []
        return [
            _forget(job, KEPT),
            (_FORGET_PLANS, (job, KEPT_OTHERS)),
            (_FORGET_INCIDENTS, (job, KEPT_OTHERS)),
            (_COUNT, (job,)),
        ]

    async def _make_room(self, job: str, size: int, now: float, *, beginning: bool = False) -> bool:
        """False if the job is known not to be there. Forgets jobs of its namespace that have ended, the oldest first,
        if `size` bytes or another job would be too much."""
        namespace, quota = namespace_of(job), self._quota
        counted = self._usage.get(namespace, now)
        if not beginning and counted and self._fits(counted, size, new=False):
            self._usage.add(namespace, jobs=0, stored=size)
            return True  # as nearly every report: the write itself finds out whether there is such a job
        (known,) = await self._database.fetch(("SELECT 1 FROM jobs WHERE job = $1", (job,)))
        if not known and not beginning:
            return False
        used = counted or await self._count(namespace, now)
        if not self._fits(used, size, new=not known):
            used = await self._count(namespace, now)  # nothing is forgotten or refused by an old count
        if self._fits(used, size, new=not known):
            self._usage.add(namespace, jobs=not known, stored=size)
            return bool(known)
        self._usage.forget(namespace)
        jobs, stored = used[0] + (not known), used[1] + size
        most_jobs, most_bytes = quota.jobs * (1 - SPARE), quota.bytes * (1 - SPARE)
        forgotten: list[Statement] = []
        for other, held in await self._forgettable(namespace, job, now):
            if jobs <= most_jobs and stored <= most_bytes:
                break
            jobs, stored = jobs - 1, stored - held
            forgotten += [(f"DELETE FROM {table} WHERE job = $1", (other,)) for table in _TABLES]
        if forgotten:
            await self._database.write(forgotten)
        if jobs > quota.jobs or stored > quota.bytes:
            allowed = f"{quota.jobs} jobs and {quota.mebibytes} MiB"
            raise QuotaExceededError(f"namespace {namespace} has all that it may have here: {allowed}")
        return bool(known)

    def _fits(self, used: tuple[int, int], size: int, *, new: bool) -> bool:
        return used[0] + new <= self._quota.jobs and used[1] + size <= self._quota.bytes

    async def _count(self, namespace: str, now: float) -> tuple[int, int]:
        sql = "SELECT count(*), coalesce(sum(bytes), 0) FROM jobs WHERE namespace = $1"
        ((found,),) = await self._database.fetch((sql, (namespace,)))
        self._usage.set(namespace, int(found[0]), int(found[1]), now)
        return int(found[0]), int(found[1])

    async def _forgettable(self, namespace: str, job: str, now: float) -> list[tuple[str, int]]:
        sql = (
            "SELECT job, bytes FROM jobs WHERE namespace = $1 AND job <> $2 AND (outcome <> '' OR updated < $3)"
            " ORDER BY updated"
        )
        (rows,) = await self._database.fetch((sql, (namespace, job, now - SILENT)))
        return [(str(other), int(held)) for other, held in rows]

    async def history(self, job: str) -> JobHistory | None:
        rows, samples, plans, incidents = await self._database.fetch(
            (f"{_JOB} WHERE job = $1", (job,)),
            ("SELECT data FROM samples WHERE job = $1 ORDER BY time DESC LIMIT $2", (job, KEPT)),
            ("SELECT data FROM plans WHERE job = $1 ORDER BY number", (job,)),
            ("SELECT data FROM incidents WHERE job = $1", (job,)),
        )
        if not rows:
            return None
        return JobHistory(
            _job(rows[0]),
            _decode_all(reversed(samples), tuple[Sample, ...]),
            _decode_all(plans, tuple[PlanRecord, ...]),
            tuple(sorted(_decode_all(incidents, tuple[Incident, ...]), key=lambda incident: incident.time)),
        )

    async def named(self, name: str) -> str | None:
        """The newest job of that namespace/name, or the job itself if `name` has its uid."""
        sql = "SELECT job FROM jobs WHERE job = $1 OR job LIKE $2 ESCAPE '!' ORDER BY updated DESC LIMIT 1"
        escaped = name.replace("!", "!!").replace("%", "!%").replace("_", "!_")
        (rows,) = await self._database.fetch((sql, (name, f"{escaped}/%")))
        return str(rows[0][0]) if rows else None

    async def jobs(self, limit: int, namespace: str = "") -> list[JobRow]:
        """The newest, of one namespace if it is given."""
        sql = f"{_JOB} WHERE $2 = '' OR namespace = $2 ORDER BY updated DESC LIMIT $1"
        (rows,) = await self._database.fetch((sql, (limit, namespace)))
        return [_job(row) for row in rows]

    async def end(self, job: str, outcome: str, now: float) -> None:
        """Keeps only the newest samples; the job's summary has the rest."""
        ended = ("UPDATE jobs SET outcome = $2, updated = $3 WHERE job = $1", (job, outcome, now))
        await self._database.write([ended, _forget(job, KEPT_ENDED), (_COUNT, (job,))])

    async def save_summary(self, summary: JobSummary) -> None:
        """Replaces the job's earlier summary under a new number, so that every Brain reads it; drops old samples."""
        await self._database.write(
            [
                ("DELETE FROM lessons WHERE job = $1", (summary.job,)),
                ("INSERT INTO lessons (job, data) VALUES ($1, $2)", (summary.job, _text(summary))),
                _forget(summary.job, KEPT),
                (_COUNT, (summary.job,)),
            ]
        )

    async def past_jobs(self) -> PastJobs:
        """The summaries of all jobs up to now."""
        (rows,) = await self._database.fetch(
            ("SELECT seq, data FROM lessons WHERE seq > $1 ORDER BY seq", (self._seen - LATE,))
        )
        for number, data in rows:
            self._past.add(_decode(data, JobSummary))
            self._seen = max(self._seen, number)
        return self._past


_TABLES = ("jobs", "samples", "plans", "incidents", "lessons")
_OF_A_JOB = "FROM jobs WHERE job = $1"  # nothing is inserted for a job that is not there
_SAMPLE = (
    f"INSERT INTO samples (job, time, data) SELECT job, CAST($2 AS DOUBLE PRECISION), CAST($3 AS TEXT) {_OF_A_JOB}"
    " ON CONFLICT (job, time) DO NOTHING"
)
_PLAN = (
    f"INSERT INTO plans (job, number, data) SELECT job, CAST($2 AS INTEGER), CAST($3 AS TEXT) {_OF_A_JOB}"
    " ON CONFLICT (job, number) DO UPDATE SET data = excluded.data"
)
_INCIDENT = (
    f"INSERT INTO incidents (job, data, time) SELECT job, CAST($2 AS TEXT), CAST($3 AS DOUBLE PRECISION) {_OF_A_JOB}"
    " ON CONFLICT (job, data) DO NOTHING"
)
_FORGET_PLANS = (
    "DELETE FROM plans WHERE job = $1"
    " AND number NOT IN (SELECT number FROM plans WHERE job = $1 ORDER BY number DESC LIMIT $2)"
)
_FORGET_INCIDENTS = (
    "DELETE FROM incidents WHERE job = $1"
    " AND data NOT IN (SELECT data FROM incidents WHERE job = $1 ORDER BY time DESC, data LIMIT $2)"
)
_COUNT = (
    "UPDATE jobs SET bytes = length(features)"
    " + (SELECT coalesce(sum(length(data)), 0) FROM samples WHERE job = $1)"
    " + (SELECT coalesce(sum(length(data)), 0) FROM plans WHERE job = $1)"
    " + (SELECT coalesce(sum(length(data)), 0) FROM incidents WHERE job = $1)"
    " + (SELECT coalesce(sum(length(data)), 0) FROM lessons WHERE job = $1)"
    " WHERE job = $1"
)


def _size(arguments: Sequence[object]) -> int:
    return sum(len(each) for each in arguments[1:] if isinstance(each, str))


def _forget(job: str, but: int) -> Statement:
    """Deletes all samples but the newest."""
    kept = "SELECT id FROM samples WHERE job = $1 ORDER BY time DESC LIMIT $2"
    return f"DELETE FROM samples WHERE job = $1 AND id NOT IN ({kept})", (job, but)


_JOB = "SELECT job, features, created, updated, outcome FROM jobs"


def _job(row: Sequence[object]) -> JobRow:
    job, features, created, updated, outcome = row
    return JobRow(str(job), _decode(features, Features), float(str(created)), float(str(updated)), str(outcome))


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decode(data: object, kind: type[T]) -> T:
    assert isinstance(data, str)
    return msgspec.json.decode(data, type=kind)


def _decode_all(rows: Iterable[Sequence[object]], kind: type[T]) -> T:
    """As one list: hundreds of small texts take longer one by one."""
    return msgspec.json.decode(f"[{','.join(str(data) for (data,) in rows)}]", type=kind)
