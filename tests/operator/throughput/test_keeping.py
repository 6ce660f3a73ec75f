"""What jobs have measured is kept in their states, rarely, and found there by a new leader."""

import asyncio

from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.store import UnavailableError
from edl.operator.reconcile.job_key import JobKey
from edl.operator.throughput.keeping import EVERY, READS, WRITES, Keeper
from edl.operator.throughput.sampling import Sampler
from edl.protocol.errors import ErrorCode
from edl.throughput.measurements import MeasuredPoint, Measurements

KEPT = Measurements((MeasuredPoint(2, 1, 0, 100.0, 60.0),))


def key(number: int) -> JobKey:
    return JobKey("trainingjobs.paddlepaddle.org", "default", f"job-{number}")


class Service:
    """Jobs that have called have a sampler, others what an earlier leader has kept."""

    def __init__(self) -> None:
        self.samplers: dict[JobKey, Sampler] = {}
        self.written: list[JobKey] = []
        self.read: list[JobKey] = []
        self.fails: Exception | None = None

    def sampler_of(self, key: JobKey) -> Sampler | None:
        return self.samplers.get(key)

    async def keep_measured(self, key: JobKey) -> None:
        self.written.append(key)
        if self.fails is not None:
            raise self.fails

    async def read_measured(self, key: JobKey) -> Measurements | None:
        self.read.append(key)
        if self.fails is not None:
            raise self.fails
        return KEPT


class Scene:
    def __init__(self, jobs: int) -> None:
        self.now = 1000.0
        self.jobs = [(key(number), f"uid-{number}") for number in range(jobs)]
        self.service = Service()
        self.told = 0
        self.keeper = Keeper(self.service, lambda: self.jobs, clock=lambda: self.now, news=self.tell)

    def tell(self) -> None:
        self.told += 1

    def samples(self) -> None:
        for name, _ in self.jobs:
            self.service.samplers.setdefault(name, Sampler(lambda: self.now)).restore(KEPT)

    def news(self) -> None:
        for sampler in self.service.samplers.values():
            sampler.revision += 1

    def round(self, seconds: float = 1.0) -> None:
        self.now += seconds
        asyncio.run(self.keeper.keep_due())


def test_a_job_is_written_every_ten_seconds_at_most_and_only_after_news() -> None:
    scene = Scene(1)
    scene.samples()
    for _ in range(5):
        scene.news()
        scene.round()
    assert len(scene.service.written) == 1
    scene.round(EVERY)
    assert len(scene.service.written) == 2
    for _ in range(3):
        scene.round(EVERY)
    assert len(scene.service.written) == 2


def test_many_jobs_share_a_few_writes_a_second() -> None:
    scene = Scene(3 * WRITES)
    scene.samples()
    scene.round()
    assert len(scene.service.written) == WRITES
    scene.round()
    scene.round()
    assert sorted(scene.service.written) == sorted(name for name, _ in scene.jobs)


def test_a_write_that_fails_is_made_again() -> None:
    scene = Scene(1)
    scene.samples()
    for error in (UnavailableError("no"), RefusedError(429, ErrorCode.BUSY, "full")):
        scene.service.fails = error
        scene.round(EVERY)
    scene.service.fails = None
    scene.round(EVERY)
    scene.round(EVERY)
    assert len(scene.service.written) == 3


def test_a_new_leader_reads_what_was_kept_of_jobs_that_have_not_called() -> None:
    scene = Scene(READS + 1)
    scene.round()
    assert len(scene.service.read) == READS
    scene.round()
    scene.round()
    assert len(scene.service.read) == READS + 1
    assert scene.keeper.measured(key(0), "uid-0") == (0, KEPT)
    assert scene.keeper.measured(key(999), "uid-999") is None


def test_what_cannot_be_read_is_read_later() -> None:
    scene = Scene(1)
    scene.service.fails = UnavailableError("no")
    scene.round()
    assert scene.keeper.measured(*scene.jobs[0]) is None
    scene.service.fails = None
    scene.round()
    assert scene.keeper.measured(*scene.jobs[0]) == (0, KEPT)


def test_jobs_that_are_gone_are_forgotten() -> None:
    scene = Scene(1)
    scene.round()
    (job,) = scene.jobs
    scene.jobs = []
    scene.round()
    assert scene.keeper.measured(*job) is None


def test_news_are_told_once() -> None:
    scene = Scene(2)
    scene.round()
    assert scene.told == 0
    scene.samples()
    scene.round()
    scene.round()
    assert scene.told == 1
    scene.news()
    scene.round()
    assert scene.told == 2
