"""The history on its way to the Brain: nothing waits for it, and a Brain that is away loses nothing it should not."""

import asyncio
from pathlib import Path
from typing import Any

from edl.brain.sqlite import SqliteDatabase
from edl.jobs.registry import JOB_KIND_BY_CRD, TRAINING_JOB
from edl.ledger.amounts import Amounts
from edl.ledger.booking import book, opened, use_now
from edl.ledger.job_account import JobAccount
from edl.ledger.uses import Use
from edl.operator.accounting import history_feed
from edl.operator.accounting.history_feed import HistoryFeed, manifest_of
from edl.operator.accounting.history_posts import HistoryPosts, RefusedBatchError, post_to
from edl.operator.reconcile.job_cache import Entry, JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.operator.resources import RawJob
from edl.operator.settings import BrainSettings
from edl.protocol.history import ClusterPoint, HistoryBatch
from edl.protocol.progress import Progress
from tests.brain.serving import KEY, brain

T0 = 1_700_000_000.0
CREATED = "2023-11-14T22:13:20Z"


class Clock:
    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> float:
        return self.now


def entry(name: str = "j", generation: int = 1, **status: Any) -> Entry:
    import msgspec

    raw = {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "generation": generation,
            "creationTimestamp": CREATED,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"},
        },
        "spec": {"image": "i", "trainer": {"entrypoint": "true", "min-instance": 1, "max-instance": 2}},
        "status": status,
    }
    job = msgspec.convert(raw, RawJob)

    class Informer:
        def get(self, key: object) -> RawJob:
            return job

    found = JobCache({TRAINING_JOB.crd_name: Informer()}).entry(JobKey(TRAINING_JOB.crd_name, "ns", name))  # type: ignore[dict-item]
    assert found is not None
    assert found.kind is JOB_KIND_BY_CRD[TRAINING_JOB.crd_name]
    return found


def scaled(*sizes: tuple[int, int, str]) -> dict[str, Any]:
    records = [{"from": before, "to": to, "reason": f"+{to - before}", "time": time} for before, to, time in sizes]
    target = sizes[-1][1]
    return {"scale_status": {"current": target, "target": target, "code": "Grown", "history": records}}


def account_of(uid: str) -> JobAccount:
    return book(use_now(opened(T0), Use.TRAINING, {Use.TRAINING: Amounts(1)}), 10).account


class Brain:
    """Takes batches, or does not."""

    def __init__(self) -> None:
        self.taken: list[HistoryBatch] = []
        self.tries = 0
        self.away = False

    async def __call__(self, batch: HistoryBatch) -> None:
        self.tries += 1
        if self.away:
            raise ConnectionError("away")
        self.taken.append(batch)


def stage() -> tuple[Clock, HistoryFeed, Brain, HistoryPosts]:
    clock = Clock()
    feed, taker = HistoryFeed(clock=clock), Brain()

    async def sleep(seconds: float) -> None:
        clock.now += seconds
        await asyncio.sleep(0)

    return clock, feed, taker, HistoryPosts(feed, account_of, taker, sleep=sleep)


async def test_a_job_is_told_with_manifest_sizes_points_and_events_once() -> None:
    clock, feed, taker, posts = stage()
    feed.observed(entry(phase="running", **scaled((0, 1, CREATED), (1, 2, CREATED))))
    feed.progressed("uid-j", Progress(done=5, total=10, loss=0.5))
    feed.event("uid-j", "Normal", "Started", "it runs")
    await posts.post_all()
    (batch,) = taker.taken
    (news,) = batch.jobs
    assert (news.job.name, news.job.phase, news.job.size, news.job.outcome) == ("j", "running", 2, "")
    assert [(one.before, one.to, one.code) for one in news.sizes] == [(0, 1, ""), (1, 2, "Grown")]
    assert (news.points[0].loss, news.events[0].reason) == (0.5, "Started")
    assert '"team"' in news.manifest
    assert "last-applied" not in news.manifest
    feed.observed(entry(phase="running", **scaled((0, 1, CREATED), (1, 2, CREATED))))
    await posts.post_all()
    assert len(taker.taken) == 1, "nothing is new"
    clock.now += history_feed.UNCHANGED
    await posts.post_all()
    assert (taker.taken[1].jobs[0].sizes, taker.taken[1].jobs[0].manifest) == ((), ""), "but time has passed"


async def test_a_brain_that_is_away_is_told_all_of_it_when_it_is_back() -> None:
    _, feed, taker, posts = stage()
    taker.away = True
    feed.observed(entry(phase="running", **scaled((0, 1, CREATED))))
    waiting = asyncio.create_task(posts.post_all())
    while taker.tries < 3:
        await asyncio.sleep(0)
    feed.observed(entry(phase="succeeded", completion_time=CREATED, **scaled((0, 1, CREATED))))
    feed.event("uid-j", "Normal", "Succeeded", "it is done")
    feed.gone("uid-j", account_of("uid-j"))
    taker.away = False
    await waiting
    lines = [news.job for batch in taker.taken for news in batch.jobs]
    assert [line.outcome for line in lines] == ["", "succeeded"]
    assert feed.dropped == 0
    assert feed.pending == 0


async def test_a_job_that_is_deleted_while_it_runs_ends_as_deleted_with_its_account() -> None:
    _, feed, taker, posts = stage()
    feed.observed(entry(phase="running"))
    feed.gone("uid-j", account_of("uid-j"))
    await posts.post_all()
    line = taker.taken[0].jobs[0].job
    assert (line.outcome, line.ended, line.account.of(Use.TRAINING).seconds) == ("deleted", T0, 10)
    assert taker.taken[0].jobs[0].manifest


async def test_what_waits_is_bounded_and_what_is_given_up_is_counted(monkeypatch: Any) -> None:
    clock, feed, _, _ = stage()
    monkeypatch.setattr(history_feed, "ENDED", 2)
    feed.observed(entry(phase="running"))
    for number in range(10_000):
        clock.now += 60
        feed.progressed("uid-j", Progress(done=number))
        feed.event("uid-j", "Normal", "R", str(number))
        feed.cluster(ClusterPoint(time=clock.now, seconds=60))
    batch = feed.batch(account_of)
    assert batch is not None
    assert len(batch.jobs[0].points) <= history_feed.EACH
    assert batch.jobs[0].points[0].done == 0, "a curve keeps its beginning"
    assert batch.jobs[0].events[-1].message == "9999"
    assert feed.dropped > 0
    for name in ("a", "b", "c"):
        feed.observed(entry(name))
        feed.gone(f"uid-{name}", account_of(""))
    rest = []
    while (more := feed.batch(account_of)) is not None:
        rest += [news.job.name for news in more.jobs]
    assert rest[:2] == ["a", "b"]
    assert "c" not in rest


async def test_manifests_of_jobs_that_are_gone_are_bounded_and_many_jobs_share_what_waits(monkeypatch: Any) -> None:
    clock, feed, _, _ = stage()
    monkeypatch.setattr(history_feed, "MANIFESTS", len(manifest_of(entry("a").raw)))
    monkeypatch.setattr(history_feed, "IN_ALL", 40)
    for _ in range(2):  # what was told makes room for others
        for name in ("a", "b"):
            feed.observed(entry(name))
            feed.gone(f"uid-{name}", account_of(""))
        batch = feed.batch(account_of)
        assert batch is not None
        assert [bool(news.manifest) for news in batch.jobs] == [True, False]
    feed.observed(entry("c"))
    feed.observed(entry("d"))
    for number in range(100):
        clock.now += 60
        feed.event("uid-c", "Normal", "R", str(number))
    batch = feed.batch(account_of)
    assert batch is not None
    assert len(batch.jobs[0].events) == 20


async def test_a_batch_that_is_refused_for_good_is_given_up_and_the_next_one_told() -> None:
    _, feed, taker, _ = stage()

    async def post(batch: HistoryBatch) -> None:
        taker.tries += 1
        if taker.tries == 1:
            raise RefusedBatchError("400")
        await taker(batch)

    posts = HistoryPosts(feed, account_of, post)
    feed.observed(entry("a"))
    await posts.post_all()
    feed.observed(entry("b"))
    await posts.post_all()
    assert [news.job.name for batch in taker.taken for news in batch.jobs] == ["b"]
    assert feed.dropped == 1


async def test_the_end_of_a_leadership_tells_what_waits_in_one_try() -> None:
    _, feed, taker, posts = stage()
    feed.observed(entry())
    feed.gone("uid-j", account_of(""))
    await posts.post_last()
    assert taker.taken[0].jobs[0].job.outcome == "deleted"
    feed.observed(entry())
    taker.away = True
    await posts.post_last()
    assert len(taker.taken) == 1


async def test_a_real_brain_takes_it_with_the_operators_own_token(tmp_path: Path) -> None:
    clock = Clock()
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock) as call:
        feed = HistoryFeed(clock=clock)
        feed.observed(entry(phase="running"))
        posts = HistoryPosts(feed, account_of, post_to(BrainSettings(call.url, KEY), clock))
        await posts.post_all()
        status, past = await call("GET", "/v1/history/jobs/ns/j")
        assert (status, past["job"]["uid"]) == (200, "uid-j")


def test_a_manifest_that_is_too_long_is_left_out(monkeypatch: Any) -> None:
    monkeypatch.setattr(history_feed, "MANIFEST_LIMIT", 10)
    assert manifest_of(entry().raw) == ""
