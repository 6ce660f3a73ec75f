"""What the Brain keeps of jobs, in terms of the policy: features, samples, plans, incidents, outcomes, lessons.

A job is named namespace/name/uid. Every write may be repeated: samples are known by their time, plans by their number.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from .database import Database, Statement
from .policy.facts import Features, Incident, PlanRecord, Sample
from .policy.lessons import Lesson, Library

T = TypeVar("T")
KEPT = 300  # samples of a job that a decision looks at
LATE = 100  # lessons that other Brains may have numbered before ours and committed after it
KEPT_ENDED = 60  # and that are kept when it has ended


class JobRow(msgspec.Struct, frozen=True):
    job: str
    features: Features
    created: float
    updated: float
    outcome: str = ""


class JobStory(msgspec.Struct, frozen=True):
    """All that is known of a job."""

    job: JobRow
    samples: tuple[Sample, ...]
    plans: tuple[PlanRecord, ...]
    incidents: tuple[Incident, ...]


class Store:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.library = Library()
        self._seen = 0  # newest lesson in the library

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def begin(self, job: str, features: Features, now: float) -> None:
        """A job that is back after its end is a running one again."""
        sql = (
            "INSERT INTO jobs (job, features, created, updated) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (job) DO UPDATE SET features = excluded.features, updated = excluded.updated, outcome = ''"
        )
        await self._database.write([(sql, (job, _text(features), now, now))])

    async def report(
        self,
        job: str,
        samples: Sequence[Sample],
        plans: Sequence[PlanRecord] = (),
        incidents: Sequence[Incident] = (),
        now: float | None = None,
    ) -> None:
        sample_sql = "INSERT INTO samples (job, time, data) VALUES ($1, $2, $3) ON CONFLICT (job, time) DO NOTHING"
        plan_sql = (
            "INSERT INTO plans (job, number, data) VALUES ($1, $2, $3)"
            " ON CONFLICT (job, number) DO UPDATE SET data = excluded.data"
        )
        incident_sql = "INSERT INTO incidents (job, data) VALUES ($1, $2) ON CONFLICT (job, data) DO NOTHING"
        statements: list[Statement] = [(sample_sql, (job, each.time, _text(each))) for each in samples]
        statements += [(plan_sql, (job, each.number, _text(each))) for each in plans]
        statements += [(incident_sql, (job, _text(each))) for each in incidents]
        if now is not None:
            statements.append(("UPDATE jobs SET updated = $2 WHERE job = $1", (job, now)))
        if statements:
            await self._database.write(statements)

    async def story(self, job: str) -> JobStory | None:
        rows, samples, plans, incidents = await self._database.fetch(
            (f"{_JOB} WHERE job = $1", (job,)),
            ("SELECT data FROM samples WHERE job = $1 ORDER BY time DESC LIMIT $2", (job, KEPT)),
            ("SELECT data FROM plans WHERE job = $1 ORDER BY number", (job,)),
            ("SELECT data FROM incidents WHERE job = $1", (job,)),
        )
        if not rows:
            return None
        return JobStory(
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

    async def jobs(self, limit: int) -> list[JobRow]:
        (rows,) = await self._database.fetch((f"{_JOB} ORDER BY updated DESC LIMIT $1", (limit,)))
        return [_job(row) for row in rows]

    async def end(self, job: str, outcome: str, now: float) -> None:
        """Of its samples the newest are kept: the lesson has the rest in a few numbers."""
        ended = ("UPDATE jobs SET outcome = $2, updated = $3 WHERE job = $1", (job, outcome, now))
        await self._database.write([ended, _forget(job, KEPT_ENDED)])

    async def teach(self, lesson: Lesson) -> None:
        """Replaces what the job taught before; its number is new, so that every Brain's library learns of it. What old
        samples said is in it, in a few numbers."""
        await self._database.write(
            [
                ("DELETE FROM lessons WHERE job = $1", (lesson.job,)),
                ("INSERT INTO lessons (job, data) VALUES ($1, $2)", (lesson.job, _text(lesson))),
                _forget(lesson.job, KEPT),
            ]
        )

    async def learn(self) -> Library:
        """The library with all lessons up to now."""
        (rows,) = await self._database.fetch(
            ("SELECT seq, data FROM lessons WHERE seq > $1 ORDER BY seq", (self._seen - LATE,))
        )
        for number, data in rows:
            self.library.add(_decode(data, Lesson))
            self._seen = max(self._seen, number)
        return self.library


def _forget(job: str, but: int) -> Statement:
    """All samples but the newest."""
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
