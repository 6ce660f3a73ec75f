"""A recorded cluster: the page of a history alone, without the cluster that it was of.

It is a file of Brain's: what `edl simulate --record` wrote, or a copy of a Brain's own. Nothing in it changes any more,
so there are no nodes, pods, logs and plans; of the period as a whole the means are shown.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from edl.brain.database import Database
from edl.brain.history_store import HistoryStore
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.transport import DirectTransport, Request, Response
from edl.ledger.amounts import NOTHING
from edl.ledger.amounts import Amounts as Booked
from edl.ledger.report import PeriodLine, PeriodReport
from edl.ledger.uses import CapacityUse, Use
from edl.operator.reconcile.job_key import JobKey
from edl.protocol.history import HistoryLine
from edl.protocol.kept_logs import KeptLogInfo
from edl.web.errors import RefusedError
from edl.web.model.history import CLUSTER_POINTS, KeptJob, kept_of, past_row, sample_of, three
from edl.web.model.state import ClusterState
from edl.web.types import ClusterSample, ClusterView, JobRow, Liveness, Share

JOBS = 20_000  # the newest, that a page lists
WAITED = 50  # those that waited longest
END = 1e11  # after everything
NO_LOGS = "a recording has no logs"
NOTE = "it is part of a recording; nothing about it changes any more"


class Recording:
    """The history in a database, as the page asks for it. `about` says what it is."""

    def __init__(self, database: Database, about: str) -> None:
        self.about = about
        self._store = HistoryStore(database)

    async def lines(self) -> list[HistoryLine]:
        return await self._store.lines(since=0.0, limit=JOBS)

    async def jobs(self) -> list[JobRow]:
        return [replace(past_row(line), reason=fared(line)) for line in await self.lines()]

    async def job(self, key: JobKey) -> KeptJob:
        uid = await self._store.named(key.namespace, key.name)
        past = await self._store.past(key.namespace, key.name, uid) if uid else None
        return kept_of(past, note=NOTE) if past is not None and past.job.kind == key.kind else KeptJob()

    async def cluster(self) -> tuple[list[ClusterSample], list[str]]:
        return [sample_of(one) for one in await self._store.cluster(0.0, END, CLUSTER_POINTS)], []

    async def logs(self, job: str) -> list[KeptLogInfo]:
        raise RefusedError(404, "not-found", NO_LOGS)

    async def log(self, job: str, pod: str) -> str:
        raise RefusedError(404, "not-found", NO_LOGS)

    async def view(self) -> ClusterView:
        samples, _ = await self.cluster()
        lines = await self.lines()
        return recorded_view(await self._store.report(0.0, END, cluster=True), lines, samples)


def recorded_view(report: PeriodReport, lines: list[HistoryLine], samples: list[ClusterSample]) -> ClusterView:
    """Means over the recorded time, and who waited longest."""
    mean = 1 / report.observed if report.observed else 0.0
    jobs, others = (report.cluster.get(use, NOTHING) for use in (CapacityUse.JOBS, CapacityUse.OTHERS))
    waited = sorted((line for line in lines if _waited(line) > 0), key=lambda line: (-_waited(line), line.uid))
    counts: dict[str, int] = {}
    for line in lines:
        state = past_row(line).state
        counts[state] = counts.get(state, 0) + 1
    return ClusterView(
        capacity=three(report.capacity * mean),
        jobs=three(jobs * mean),
        others=three(others * mean),
        nodes=[],
        more_nodes=0,
        queue=[replace(past_row(line), reason=fared(line)) for line in waited[:WAITED]],
        shares=[_share(one, report.observed) for one in report.namespaces],
        samples=samples,
        counts=counts,
        missing=["nodes, pods, logs and plans: this is a recording"],
    )


def _waited(line: HistoryLine) -> float:
    return line.account.of(Use.WAITING).seconds


def fared(line: HistoryLine) -> str:
    account = line.account
    several = "changes" if account.changes > 1 else "change"
    changes = f", {account.changes} {several} of members" if account.changes else ""
    useful = "" if account.goodput is None else f", {account.goodput:.0%} of what it held was useful"
    return f"waited {span(_waited(line))} of {span(account.seconds)}{changes}{useful}"


def _share(line: PeriodLine, observed: float) -> Share:
    held: Booked = line.held * (1 / observed if observed else 0.0)
    useful = "" if line.goodput is None else f", {line.goodput:.0%} of it useful"
    words = f"{line.jobs} jobs, waited {span(line.waited)} in all{useful}"
    return Share(namespace=line.namespace, used=three(held), running=0, waiting=0, note=words)


def span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class RecordedState(ClusterState):
    """No cluster: it has no caches to fill, and is as live as it will ever be."""

    def __init__(self) -> None:
        super().__init__(absent_cluster())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield

    @property
    def synced(self) -> bool:
        return True

    def liveness(self) -> Liveness:
        return Liveness(live=True, why="", age=0.0)


def absent_cluster() -> Client:
    async def refuse(request: Request) -> Response:
        raise ConnectionLostError("this is a recording, there is no cluster to ask")

    return Client(DirectTransport(refuse))
