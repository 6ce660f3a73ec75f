"""The history of a simulated cluster, kept as Brain keeps that of a real one, so that the page shows either.

Nothing is decided or reckoned here: sizes and their reasons are those of the plans, written down by the rule that
writes them into status; time is booked by the ledger; points of the cluster come from the operator's own account of it.
What a job of a trace does not have (loss, Events, logs) stays empty.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from edl.api.status import Scale
from edl.brain.database import Database, UnavailableError, connect
from edl.brain.history_store import HistoryBounds, HistoryStore
from edl.cli.errors import CommandError
from edl.jobs.core.grant import Grant, with_grant
from edl.jobs.registry import BY_API_VERSION
from edl.ledger.amounts import NOTHING
from edl.ledger.booking import book
from edl.ledger.job_use import JobFacts, KeptLedger, observe, started
from edl.operator.accounting.accounting import POINT
from edl.operator.accounting.cluster_ledger import ClusterLedger, largest_of
from edl.operator.accounting.job_facts import amounts_of
from edl.operator.reconcile.job_key import JobKey
from edl.protocol.history import ClusterPoint, HistoryBatch, HistoryLine, JobNews, Name, ProgressPoint, SizeChange
from edl.scheduler.plan import Decision, Plan, plan
from edl.scheduler.simulation.engine import Run
from edl.scheduler.simulation.trace import Trace
from edl.scheduler.simulation.world import API_VERSION, AXES, KIND, SHAPE, SimulatedJob, snapshot

BEGAN = 1_704_067_200.0
"""When simulated time 0 is: Monday, 2024-01-01, 00:00 UTC. Always the same, so that runs can be compared."""
KEPT = 3600.0  # seconds between two accounts of a job, as Brain keeps them
UNBOUNDED = HistoryBounds(days=1e5, mebibytes=1e6)
ONE = amounts_of(dict(zip(AXES.names, SHAPE.requests, strict=True)), lead=True)
KIND_NAME = BY_API_VERSION[API_VERSION, KIND].crd_name


class JobRecord:
    """One job on its way into history: what is new of it, and its account."""

    def __init__(self, job: SimulatedJob) -> None:
        self.job, self.scale = job, Scale()
        self.ledger: KeptLedger = started(BEGAN + job.trace.submit)
        self.key = JobKey(KIND_NAME, job.trace.namespace, job.trace.name)
        self._sizes: list[SizeChange] = []
        self._points: list[ProgressPoint] = []
        self._pods: Mapping[str, int] = {}
        self._target: int | None = None
        self._changes = -1
        self._resumes: float | None = None
        self._moved: float | None = None
        self._told = False

    def decided(self, decision: Decision, now: float) -> None:
        grant = Grant(decision.target, str(decision.code), decision.reason)
        before, self.scale = self.scale, with_grant(self.scale, grant, now, refresh_message=True)
        if self.scale.history == before.history:
            return
        last = self.scale.history[-1]
        time = max(now, self._sizes[-1].time + 1e-6) if self._sizes else now  # two of one moment are two
        self._sizes.append(SizeChange(time, last.before, last.to, self.scale.code, last.reason))

    def look(self, now: float) -> None:
        """Books the time until now, and notes what the job does from now on."""
        self._go_on(now)
        pods, target, changes = self.job.pods, self.job.target, self.job.changes
        if (pods, target, changes) != (self._pods, self._target, self._changes):
            if pods != self._pods or changes != self._changes:
                self._resumes = BEGAN + self.job.paused_until if pods else None
            self._pods, self._target, self._changes = pods, target, changes
            self._observe(now)
            self._point(now)
            self._go_on(now)

    def _go_on(self, now: float) -> None:
        """A job pauses after every change of its instances, and then goes on: nothing else happens at that moment."""
        resumes = self._resumes
        if resumes is not None and resumes <= now and sum(self._pods.values()) >= self.job.trace.min:
            self._moved, self._resumes = resumes, None
            self._observe(resumes)

    def end(self, now: float) -> None:
        self._go_on(now)
        self._pods, self._target = {}, None
        self._observe(now, ended=True)
        self._point(now)

    def book(self, now: float) -> None:
        self.ledger = replace(self.ledger, open=book(self.ledger.open, now - self.ledger.open.until))

    def _observe(self, now: float, *, ended: bool = False) -> None:
        size = sum(self._pods.values())
        facts = JobFacts(
            waiting=NOTHING if ended else ONE * max(0, (self._target or self.job.trace.min) - size),
            running=ONE * size,
            members=f"{sorted(self._pods.items())} {self._changes}",  # the same ones, started anew, are others
            at_work=self._moved is not None,
            moved=self._moved,
            ended=ended,
        )
        self.ledger = observe(self.ledger, facts, now, now - self.ledger.open.until)

    def _point(self, now: float) -> None:
        total = round(self.job.trace.work)
        size, done = sum(self._pods.values()), total - round(self.job.left)
        self._points.append(ProgressPoint(now, size, self._target or 0, done=done, total=total))

    def news(self, now: float) -> JobNews:
        """What has not been told yet."""
        manifest = "" if self._told else msgspec.json.encode({"simulated": self.job.trace}).decode()
        told = JobNews(job=self._line(now), manifest=manifest, sizes=tuple(self._sizes), points=tuple(self._points))
        self._told, self._sizes, self._points = True, [], []
        return told

    def _line(self, now: float) -> HistoryLine:
        job, ended = self.job, self.job.ended is not None
        return HistoryLine(
            uid=job.uid,
            kind=self.key.kind,
            namespace=job.trace.namespace,
            name=job.trace.name,
            created=BEGAN + job.trace.submit,
            updated=now,
            ended=now if ended else None,
            outcome="succeeded" if ended else "",
            phase="Succeeded" if ended else "Running" if job.size else "Pending",
            reason="all its work is done" if ended else self.scale.reason,
            size=sum(self._pods.values()),
            target=self._target or 0,
            priority=job.trace.priority,
            account=self.ledger.open.account,
        )


class Recording:
    """Watches one run, and writes what is new once an hour of simulated time. A call returns when it is written."""

    def __init__(self, database: Database, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._store = HistoryStore(database, UNBOUNDED)
        self._time = BEGAN
        self._cluster = ClusterLedger(clock=lambda: self._time, steady=lambda: self._time)
        self._records: dict[str, JobRecord] = {}
        self._news: list[JobNews] = []
        self._points: list[ClusterPoint] = []
        self._pointed = self._written = BEGAN

    def __call__(self, run: Run, plans: Sequence[Plan]) -> None:
        now = BEGAN + run.now
        self._pass_until(now)
        present = {job.uid: job for job in run.present}
        for uid in [uid for uid in self._records if uid not in present]:
            self._end(uid, now)
        for uid, job in present.items():
            if uid not in self._records:
                self._records[uid] = JobRecord(job)
        for made in plans:
            for decision in made.jobs:
                self._records[decision.uid].decided(decision, now)
        for record in self._records.values():
            record.look(now)
        self._cluster.planned((plans[-1] if plans else _idle(run)).cluster)
        if now - self._written >= KEPT:
            self.write()

    def _end(self, uid: str, now: float) -> None:
        record = self._records.pop(uid)
        record.end(now)
        self._news.append(record.news(now))

    def _pass_until(self, now: float) -> None:
        """What was since the last point was the same until now; its first minute may have been something else."""
        for due in (self._pointed + POINT, now):
            if self._pointed + POINT <= due <= now:
                self._time = due
                self._point()
        self._time = now

    def _point(self) -> None:
        held = [(record.key, record.ledger.open) for record in self._records.values()]
        point = self._cluster.point(self._runner.run(largest_of(held)))
        self._pointed = self._time
        if point is not None:
            self._points.append(point)

    def write(self) -> None:
        self._written = self._time
        for record in self._records.values():
            record.book(self._time)
            self._news.append(record.news(self._time))
        news, self._news = self._news, []
        points, self._points = self._points, []
        self._runner.run(self._store.add(HistoryBatch(tuple(news), tuple(points)), self._time))

    def close(self) -> None:
        """The end of the run: the last point and all that was not written."""
        self._point()
        self.write()


def _idle(run: Run) -> Plan:
    """Of a cluster without jobs the simulation makes no plans; what it has and others use is told all the same."""
    return plan(snapshot((), run.nodes, run.now, run.foreign), run.memory, now=run.now, settings=run.settings)


@contextmanager
def recording(file: str, trace: Trace) -> Iterator[Recording]:
    """Into a new file, which is there only if the run came to its end. CommandError: why not."""
    _check(file, trace)
    database = connect(file)
    try:
        with asyncio.Runner() as runner:
            runner.run(database.open())
            try:
                made = Recording(database, runner)
                yield made
                made.close()
            finally:
                runner.run(database.close())
    except UnavailableError as error:
        _remove(file)
        raise CommandError(f"--record {error}") from None
    except BaseException:
        _remove(file)
        raise


def _check(file: str, trace: Trace) -> None:
    if "://" in file:
        raise CommandError(f"--record {file}: wants the name of a file")
    if Path(file).exists():
        raise CommandError(f"--record {file}: is there already")
    for job in trace.jobs:
        for name in (job.namespace, job.name):
            try:
                msgspec.convert(name, Name)
            except msgspec.ValidationError:
                raise CommandError(f"--record: {name!r} is no name for Kubernetes: letters, digits, - and .") from None


def _remove(file: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)
