"""The news of all jobs that the Brain has not been told: collected without waiting, bounded, given out in batches.

Level-triggered where it can be: a job's line, manifest and sizes are read from its object whenever they are sent, so
that a crash or a Brain that is away loses none of them. Points and Events wait here; if there are too many, points
become sparser and the oldest Events go, and `dropped` counts them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from edl.api.kubernetes import timestamp
from edl.api.status import JobProgress
from edl.ledger.job_account import JobAccount
from edl.operator.reconcile.job_cache import Entry
from edl.operator.resources import RawJob
from edl.protocol.history import (
    LINES_LIMIT,
    MANIFEST_LIMIT,
    ClusterPoint,
    HistoryBatch,
    HistoryLine,
    JobNews,
    KeptEvent,
    ProgressPoint,
    SizeChange,
)
from edl.protocol.progress import Progress

EACH, IN_ALL = 200, 100_000  # points, and Events, of one job that wait; and of all jobs together
ENDED = 10_000  # jobs that are gone and not told yet
MANIFESTS = 16 << 20  # characters of their manifests
CLUSTER = 1500  # points of the cluster that wait: a day, at one a minute
SOONEST, POINTS = 2.0, 350  # between two points of a job: seconds, or the time since its creation by so many
UNCHANGED = 60.0  # seconds after which a job is told again though nothing but time has passed
A_SECOND = 16  # jobs that are told so, where there are thousands
BATCH_JOBS, BATCH_BYTES = 50, 1 << 20  # few: a batch is made in one go, and others wait for it
BATCH_POINTS = 200
LONGEST = 4000  # characters of a reason or message
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Job(msgspec.Struct):
    entry: Entry
    priority: int = 0
    changed: bool = True
    manifest: bool = True
    """It is to be told."""
    sent: float = 0.0
    sized: float = 0.0
    """Time of the newest change of size that was taken over."""
    pointed: float = 0.0
    sizes: list[SizeChange] = []
    points: list[ProgressPoint] = []
    events: list[KeptEvent] = []


class HistoryFeed:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, _Job] = {}
        self._ended: dict[str, JobNews] = {}
        self._manifests = 0
        self._cluster: list[ClusterPoint] = []
        self.dropped = 0

    @property
    def pending(self) -> int:
        """Jobs of which something waits to be told."""
        return len(self._ended) + sum(1 for job in self._jobs.values() if job.changed)

    @property
    def _each(self) -> int:
        return max(10, min(EACH, IN_ALL // (len(self._jobs) or 1)))

    def lead(self) -> None:
        self._jobs.clear()

    def observed(self, entry: Entry, priority: int = 0) -> None:
        """Cheap if the job's object is the one that was seen last."""
        job = self._jobs.get(entry.uid)
        if job is None:
            job = self._jobs[entry.uid] = _Job(entry, priority)
        elif job.entry.raw is entry.raw:
            return
        else:
            before, job.entry, job.priority = job.entry, entry, priority
            job.manifest |= before.raw.metadata.generation != entry.raw.metadata.generation
            job.changed |= job.manifest or _sent_facts(before) != _sent_facts(entry)
            if entry.status.finished and not before.status.finished and entry.status.progress is not None:
                self._add_point(job, _last_progress(entry.status.progress))
        self._take_sizes(job)

    def _take_sizes(self, job: _Job) -> None:
        scale = job.entry.kind.scale_of(job.entry.status)
        for record in scale.history if scale is not None else ():
            time = _moment(record.time) + record.to % 1000 * 1e-6  # two of one second are two
            if time <= job.sized:
                continue
            last = scale is not None and record is scale.history[-1]
            code = scale.code if scale is not None and last else ""
            job.sizes = [*job.sizes[-EACH:], SizeChange(time, record.before, record.to, code, record.reason[:LONGEST])]
            job.sized, job.changed = time, True

    def progressed(self, uid: str, progress: Progress) -> None:
        """What the job last said of its training. Often enough for a curve, the rarer the longer it trains."""
        job, now = self._jobs.get(uid), self._clock()
        if job is not None and now - job.pointed >= max(SOONEST, (now - job.entry.created) / POINTS):
            self._add_point(job, progress)

    def _add_point(self, job: _Job, progress: Progress) -> None:
        now = self._clock()
        if len(job.points) >= self._each:
            self.dropped += len(job.points) // 2
            job.points = job.points[::2]
        job.points.append(_point(job.entry, progress, now))
        job.pointed, job.changed = now, True

    def event(self, uid: str, type: str, reason: str, message: str) -> None:  # noqa: A002 - as Kubernetes calls it
        job = self._jobs.get(uid)
        if job is None:
            return
        if len(job.events) >= self._each:
            self.dropped += 1
            del job.events[0]
        time = max(self._clock(), job.events[-1].time + 1e-6 if job.events else 0.0)
        job.events.append(KeptEvent(time, type, reason[:128], message[:LONGEST]))
        job.changed = True

    def cluster(self, point: ClusterPoint) -> None:
        self._cluster.append(point)
        if len(self._cluster) > CLUSTER:
            self.dropped += 1
            del self._cluster[0]

    def gone(self, uid: str, account: JobAccount) -> None:
        """The job is deleted, and so are its pods."""
        job = self._jobs.pop(uid, None)
        if job is None:
            return
        if len(self._ended) >= ENDED:
            self.dropped += 1
            return
        now = self._clock()
        line = _line(job, account, now)
        if not line.outcome:
            line = msgspec.structs.replace(line, outcome="deleted", ended=now)
        self._ended[uid] = self._bounded(_news(job, line))

    def _bounded(self, news: JobNews) -> JobNews:
        """Without its manifest if there are too many of jobs that are gone."""
        if self._manifests + len(news.manifest) > MANIFESTS:
            self.dropped += 1
            return msgspec.structs.replace(news, manifest="")
        self._manifests += len(news.manifest)
        return news

    def batch(self, account_of: Callable[[str], JobAccount | None]) -> HistoryBatch | None:
        """What is next to be told, and is then no longer pending; None if there is nothing."""
        news: list[JobNews] = []
        size = 0
        for one in self._next(account_of):
            news.append(one)
            size += len(one.manifest) + 1000
            if len(news) >= BATCH_JOBS or size >= BATCH_BYTES:
                break
        points, self._cluster = self._cluster[:BATCH_POINTS], self._cluster[BATCH_POINTS:]
        return HistoryBatch(tuple(news), tuple(points)) if news or points else None

    def _next(self, account_of: Callable[[str], JobAccount | None]) -> Iterator[JobNews]:
        while self._ended:
            news = self._ended.pop(next(iter(self._ended)))
            self._manifests -= len(news.manifest)
            yield news
        now, unchanged = self._clock(), max(UNCHANGED, len(self._jobs) / A_SECOND)
        for uid, job in list(self._jobs.items()):
            over = job.entry.status.finished and job.sent > 0
            if not job.changed and (over or now - job.sent < unchanged):
                continue
            account = account_of(uid)
            if account is None:
                continue
            news = _news(job, _line(job, account, now))
            job.changed = job.manifest = False
            job.sent, job.sizes, job.points, job.events = now, [], [], []
            yield news


def _sent_facts(entry: Entry) -> tuple[Any, ...]:
    """What a list of jobs shows: another one is news."""
    status, scale = entry.status, entry.kind.scale_of(entry.status)
    return status.phase, status.reason, scale and (scale.current, scale.target)


def _line(job: _Job, account: JobAccount, now: float) -> HistoryLine:
    entry, metadata = job.entry, job.entry.raw.metadata
    status, scale = entry.status, entry.kind.scale_of(entry.status)
    ended = _moment(status.completion_time) if status.finished else None
    return HistoryLine(
        uid=entry.uid,
        kind=entry.kind.crd_name,
        namespace=metadata.namespace,
        name=metadata.name,
        created=entry.created,
        updated=now,
        ended=ended or (now if status.finished else None),
        outcome=status.phase.lower() if status.finished else "",
        phase=status.phase,
        reason=_reason(status, scale),
        size=scale.current if scale is not None else 0,
        target=(scale.target if scale is not None else None) or 0,
        priority=job.priority,
        account=account,
    )


def _reason(status: Any, scale: Any) -> str:
    """Of a job that waits the scheduler's, of others their own."""
    waits = scale is not None and not scale.target and not status.finished
    reason: str = (scale.reason if waits else status.reason) or status.reason
    return reason[:LONGEST]


def _news(job: _Job, line: HistoryLine) -> JobNews:
    cause = job.entry.status.root_cause
    return JobNews(
        job=line,
        manifest=manifest_of(job.entry.raw) if job.manifest else "",
        last_lines=cause.message[-LINES_LIMIT:] if cause is not None else "",
        sizes=tuple(job.sizes),
        points=tuple(job.points),
        events=tuple(job.events),
    )


def manifest_of(raw: RawJob) -> str:
    """As its user wrote it, and Kubernetes completed it: what it would take to submit it again. Empty if too long."""
    notes = {key: value for key, value in raw.metadata.annotations.items() if key != _APPLIED}
    metadata: dict[str, Any] = {"name": raw.metadata.name, "namespace": raw.metadata.namespace}
    metadata |= {"labels": dict(raw.metadata.labels)} if raw.metadata.labels else {}
    metadata |= {"annotations": notes} if notes else {}
    body = {"apiVersion": raw.api_version, "kind": raw.kind, "metadata": metadata, "spec": raw.spec}
    text = msgspec.json.encode(body).decode()
    return text if len(text) <= MANIFEST_LIMIT else ""


def _point(entry: Entry, progress: Progress, now: float) -> ProgressPoint:
    scale = entry.kind.scale_of(entry.status)
    return ProgressPoint(
        time=now,
        size=scale.current if scale is not None else 0,
        target=(scale.target if scale is not None else None) or 0,
        done=progress.done,
        total=progress.total,
        epoch=progress.epoch if progress.epoch is not None else progress.pass_index,
        loss=progress.loss,
        throughput=progress.throughput,
        pause=progress.pause,
    )


def _last_progress(shown: JobProgress) -> Progress:
    """The end of a curve, as the job's status has it."""
    return Progress(done=shown.done, total=shown.total, epoch=shown.epoch, loss=shown.loss, throughput=shown.throughput)


def _moment(text: str | None) -> float:
    return timestamp.seconds(text) if text else 0.0
