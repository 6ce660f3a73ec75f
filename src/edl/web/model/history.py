"""What was kept of jobs and of the cluster beyond what the cluster itself knows: curves, accounts, and jobs that are
deleted. Brain keeps it; without one there is none of it, and the page says so.

Brain is asked with a reader's token, for all of it: who may see what of it is decided here, as for everything else.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from edl.brain.client import BrainClient, BrainDownError, BrainRefusalError
from edl.brain.tokens import READER, mint, read_key
from edl.ledger.amounts import Amounts as Booked
from edl.ledger.job_account import JobAccount
from edl.ledger.uses import UNUSABLE, CapacityUse
from edl.operator.reconcile.job_key import JobKey
from edl.protocol.history import ClusterPoint, HistoryLine, JobPast
from edl.protocol.kept_logs import KeptLogInfo
from edl.web.errors import RefusedError
from edl.web.model.rows import job_key
from edl.web.model.samples import Point
from edl.web.types import AccountLine, Amounts, ClusterSample, EventRow, Holder, JobRow, SizeDecision

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_BRAIN = "what was before this page's server began to watch: no Brain keeps a history here"
NO_LOGS = "no Brain is installed that would keep logs of pods that are gone"
AWAY = "what Brain keeps of it: Brain does not answer"
FRESH = 10.0  # seconds that an answer of Brain's is good for
REMEMBERED = 500
TIMEOUT = 5.0
CLUSTER_SECONDS = 7 * 86400.0
CLUSTER_POINTS = 500


class KeptJob(msgspec.Struct, frozen=True, kw_only=True):
    """`row` is None if nothing is kept of the job. `manifest` is JSON."""

    row: JobRow | None = None
    points: list[Point] = []
    decisions: list[SizeDecision] = []
    events: list[EventRow] = []
    account: list[AccountLine] = []
    goodput: float | None = None
    last_lines: str = ""
    manifest: str = ""
    note: str = "it is deleted; this is what history kept of it"
    missing: list[str] = []


class History(Protocol):
    async def job(self, key: JobKey) -> KeptJob: ...

    async def jobs(self) -> list[JobRow]:
        """Those that are over or deleted, among them some that are still there."""

    async def cluster(self) -> tuple[list[ClusterSample], list[str]]:
        """The past of the cluster, and what is missing of it."""

    async def logs(self, job: str) -> list[KeptLogInfo]:
        """Of the pods of namespace/name/uid, or of the newest job of namespace/name. RefusedError: none can be had."""

    async def log(self, job: str, pod: str) -> str:
        """What is kept of one, of namespace/name/uid. RefusedError as above."""


class NoHistory:
    async def job(self, key: JobKey) -> KeptJob:
        return KeptJob(missing=[NO_BRAIN])

    async def jobs(self) -> list[JobRow]:
        return []

    async def cluster(self) -> tuple[list[ClusterSample], list[str]]:
        return [], ["capacity before this page's server began to watch, and why free capacity is not used: no Brain"]

    async def logs(self, job: str) -> list[KeptLogInfo]:
        raise RefusedError(404, "not-found", NO_LOGS)

    async def log(self, job: str, pod: str) -> str:
        raise RefusedError(404, "not-found", NO_LOGS)


class BrainHistory:
    """One Brain at `url`. A reader's `token` is asked for anew when Brain refuses the last one: it may be replaced.
    `ca` names a file."""

    def __init__(
        self,
        url: str,
        token: Callable[[], str],
        *,
        ca: str = "",
        clock: Callable[[], float] = time.time,
        fresh: float = FRESH,
    ) -> None:
        self._url, self._token, self._ca, self._clock, self._fresh = url, token, ca, clock, fresh
        self._turn = asyncio.Lock()
        self._client: BrainClient | None = None
        self._jobs: dict[JobKey, tuple[float, KeptJob]] = {}
        self._cluster: tuple[float, list[ClusterSample]] = (float("-inf"), [])

    async def job(self, key: JobKey) -> KeptJob:
        now = self._clock()
        known = self._jobs.get(key)
        if known is not None and now - known[0] < self._fresh:
            return known[1]
        try:
            past = await self._ask(lambda brain: brain.past(f"{key.namespace}/{key.name}"))
            kept = kept_of(past) if past.job.kind == key.kind else KeptJob()
        except BrainRefusalError:
            kept = KeptJob()  # it keeps nothing of it, or not yet
        except BrainDownError as error:
            log.warning("Brain does not answer: %s", error)
            kept = msgspec.structs.replace(known[1], missing=[AWAY]) if known is not None else KeptJob(missing=[AWAY])
        if len(self._jobs) >= REMEMBERED:
            self._jobs.clear()
        self._jobs[key] = now, kept
        return kept

    async def jobs(self) -> list[JobRow]:
        try:
            lines = await self._ask(lambda brain: brain.history(limit=10_000))
        except (BrainDownError, BrainRefusalError) as error:
            log.warning("Brain does not list its jobs: %s", error)
            return []
        return [past_row(line) for line in lines if line.outcome]

    async def cluster(self) -> tuple[list[ClusterSample], list[str]]:
        now = self._clock()
        if now - self._cluster[0] < self._fresh:
            return self._cluster[1], []
        since = now - CLUSTER_SECONDS
        try:
            points = await self._ask(lambda brain: brain.cluster_history(since=since, until=now, points=CLUSTER_POINTS))
        except (BrainDownError, BrainRefusalError):
            return self._cluster[1], ["capacity over time as Brain keeps it: Brain does not answer"]
        self._cluster = now, [sample_of(point) for point in points]
        return self._cluster[1], []

    async def logs(self, job: str) -> list[KeptLogInfo]:
        return await self._of_logs(lambda brain: brain.logs(job))

    async def log(self, job: str, pod: str) -> str:
        return await self._of_logs(lambda brain: brain.log(job, pod))

    async def _of_logs(self, call: Callable[[BrainClient], T]) -> T:
        try:
            return await self._ask(call)
        except BrainRefusalError as error:
            raise RefusedError(502, "unavailable", f"Brain refuses to give logs: {error}") from None
        except BrainDownError as error:
            raise RefusedError(503, "unavailable", f"Brain, which keeps logs, does not answer: {error}") from None

    async def _ask(self, call: Callable[[BrainClient], T]) -> T:
        """One at a time, in a thread: its client blocks."""
        async with self._turn:
            try:
                return await asyncio.to_thread(lambda: call(self._connected()))
            except BrainRefusalError as error:
                if error.status == 401:
                    self._client = None
                raise
            except (OSError, ValueError) as error:
                raise BrainDownError(str(error)) from error

    def _connected(self) -> BrainClient:
        if self._client is None:
            self._client = BrainClient(self._url, self._token(), ca=self._ca, timeout=TIMEOUT)
        return self._client


def key_file(path: Path) -> Callable[[], str]:
    """A token by the key in a file, which may come later than we do."""
    return lambda: mint(read_key(path.read_bytes()), READER)


def token_file(path: Path) -> Callable[[], str]:
    """The token in a file, for who needs no key that opens everything."""
    return lambda: path.read_text().strip()


def kept_of(past: JobPast, note: str = KeptJob().note) -> KeptJob:
    return KeptJob(
        note=note,
        row=past_row(past.job),
        points=[Point(one.time, one.size, one.target, one.loss, one.throughput) for one in past.points],
        decisions=[SizeDecision(time=one.time, before=one.before, to=one.to, reason=one.reason) for one in past.sizes],
        events=[
            EventRow(time=one.time, type=one.type, object="", reason=one.reason, message=one.message, count=1)
            for one in past.events
        ],
        account=account_lines(past.job.account),
        goodput=past.job.account.goodput,
        last_lines=past.last_lines,
        manifest=past.manifest,
    )


def account_lines(account: JobAccount) -> list[AccountLine]:
    """Of instances; waiting is of the job itself, which held none."""
    return [
        AccountLine(use=str(use), seconds=round(spent.amounts.instances or spent.seconds, 1))
        for use, spent in account.spent.items()
    ]


def past_row(line: HistoryLine) -> JobRow:
    """`state` of one that was deleted while it ran is deleted."""
    return JobRow(
        key=job_key(line.kind, line.namespace, line.name),
        kind=line.kind,
        namespace=line.namespace,
        name=line.name,
        uid=line.uid,
        state=line.outcome or "new",
        phase=line.phase,
        now=line.size,
        target=line.target,
        min=None,
        max=None,
        code="",
        reason=line.reason,
        percent=None,
        progress="",
        eta="",
        loss=None,
        throughput=None,
        priority=str(line.priority or ""),
        created=line.created,
        ended=line.ended,
    )


def sample_of(point: ClusterPoint) -> ClusterSample:
    jobs = three(point.uses.get(CapacityUse.JOBS, Booked()))
    largest = {name: three(used) for name, used in point.largest.items()}
    shown = [_share_shown(have, sum(one[axis] for one in largest.values())) for axis, have in enumerate(jobs)]
    held = {name: tuple(round(a * b, 3) for a, b in zip(one, shown, strict=True)) for name, one in largest.items()}
    return ClusterSample(
        time=point.time,
        capacity=three(point.capacity),
        others=three(point.uses.get(CapacityUse.OTHERS, Booked())),
        holders=[Holder(key=f"-/{name}", used=(one[0], one[1], one[2])) for name, one in held.items()],
        rest=_rest(jobs, held.values()),
        unusable={str(use): three(point.uses[use]) for use in UNUSABLE if use in point.uses},
    )


def three(booked: Booked) -> Amounts:
    return max(0.0, round(booked.cores, 3)), max(0.0, booked.gib * 2**30), max(0.0, round(booked.gpus, 3))


def _share_shown(used: float, named: float) -> float:
    """The largest jobs are those of the moment, the use is a mean: together they must not hold more than was used."""
    return min(1.0, used / named) if named > 0 else 1.0


def _rest(used: Amounts, named: Iterable[Sequence[float]]) -> Amounts:
    sums = [sum(one) for one in zip(*named, strict=True)] or [0.0, 0.0, 0.0]
    cores, memory, gpus = (max(0.0, round(have - sums[axis], 3)) for axis, have in enumerate(used))
    return cores, memory, gpus
