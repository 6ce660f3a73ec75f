"""When a job that waits will start: by what others have left, with a range, or an admission that nobody can say."""

import pytest

from edl.scheduler.memory import Memory
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.forecast import StartForecast, forecast
from edl.scheduler.simulation.forward import Future, Happening
from edl.scheduler.snapshot.types import Snapshot
from tests.scheduler.makers import NOW, Data, elastic_job, node, running, snapshot
from tests.scheduler.test_measured_jobs import state_of

MINUTE = 60.0
CFS = Settings(max_load="1")


def busy(name: str, on: dict[str, int], *, left: float | None, size: int | None = None, **more: int) -> list[Data]:
    """A job that runs as fast as its size, with so many seconds left at the size that it has."""
    count = sum(on.values())
    job = elastic_job(name, size or count, size or count, gpu=1, status={}, **more)
    found = [job, *running(job, on)]
    points = [[count, 1, 0, float(count), 60.0, 0.0, 10]]
    said = {"points": points, "steps": True}
    if left is not None:
        said |= {"done": 0, "total": round(left * count)}
    return [*found, state_of(job, said)]


def ahead(taken: Snapshot, settings: Settings = CFS) -> dict[str, StartForecast]:
    found = forecast(taken, Memory(), now=NOW, settings=settings)
    return {key.removeprefix("uid-default-"): one for key, one in found.items()}


def cluster(*objects: object, nodes: int = 1) -> Snapshot:
    return snapshot([node(f"n{number}", cpu=64, memory="256Gi", gpu=4) for number in range(nodes)], *objects)


def test_a_job_starts_when_the_one_that_holds_its_place_ends() -> None:
    taken = cluster(busy("a", {"n0": 4}, left=12 * MINUTE), elastic_job("b", 4, 4, gpu=1))
    found = ahead(taken)["b"]
    assert found.starts == pytest.approx(12 * MINUTE, rel=0.05)
    assert found.earliest == pytest.approx(7.2 * MINUTE, rel=0.05)
    assert found.latest == pytest.approx(20.4 * MINUTE, rel=0.05)
    assert found.words == "starts in about 12 min (7-20)"


def test_it_says_behind_how_many_it_waits() -> None:
    jobs = [elastic_job(name, 2, 2, gpu=1, age=age) for name, age in (("b", 300), ("c", 200), ("d", 100))]
    taken = cluster(busy("a", {"n0": 2}, left=10 * MINUTE), busy("z", {"n0": 2}, left=30 * MINUTE), *jobs)
    found = ahead(taken)
    assert [found[name].behind for name in "bc"] == [0, 1]
    assert found["b"].starts == pytest.approx(10 * MINUTE, rel=0.05)
    assert found["c"].starts == pytest.approx(30 * MINUTE, rel=0.05)
    assert found["c"].words.endswith(", behind 1 job")
    assert found["d"].words.endswith("default/b and 1 other job do not tell how much is left to do")


def test_where_nothing_is_known_it_says_so() -> None:
    taken = cluster(busy("a", {"n0": 4}, left=None), elastic_job("b", 4, 4, gpu=1))
    found = ahead(taken)["b"]
    assert found.starts is None
    assert found.words == "nobody can say when it starts: default/a does not tell how much is left to do"


def test_a_job_that_fits_at_once_starts_in_a_moment() -> None:
    assert ahead(cluster(elastic_job("b", 4, 4, gpu=1)))["b"].words == "starts in a moment"


def test_an_elastic_job_gives_way_and_nobody_waits_for_its_end() -> None:
    taken = cluster(busy("a", {"n0": 4}, left=None, size=None), elastic_job("b", 2, 2, gpu=1))
    assert ahead(taken)["b"].starts is None
    job = elastic_job("a", 1, 4, gpu=1, status={})
    assert (
        ahead(cluster(job, running(job, {"n0": 4}), elastic_job("b", 2, 2, gpu=1)))["b"].words == "starts in a moment"
    )


def test_a_job_that_never_fits_never_starts() -> None:
    """Its reason says so already."""
    assert ahead(cluster(busy("a", {"n0": 4}, left=60.0), elastic_job("b", 64, 64, gpu=1))) == {}


@pytest.mark.parametrize("policy", ["cfs", "fulfillment", "goodput"])
def test_what_happens_is_what_plans_would_do(policy: str) -> None:
    """One ends, the other gets its place; the sizes add up at every moment."""
    first, second = elastic_job("a", 1, 4, gpu=1, status={}), elastic_job("b", 2, 8, gpu=1, age=5)
    state = state_of(first, {"points": [[4, 1, 0, 4.0, 60.0, 0.0, 9]], "steps": True, "done": 0, "total": 2400})
    taken = cluster(first, running(first, {"n0": 4}), state, second, nodes=1)
    future = Future(taken, Memory(), now=NOW, settings=Settings(policy=policy, max_load="1"))
    sizes = {"uid-default-a": 4}
    happened: list[Happening] = []
    for one in future.run(NOW + 7200, 100):
        happened.append(one)
        assert sizes.get(one.key, 0) == one.before
        sizes[one.key] = one.after
        assert sum(sizes.values()) <= 4 or one.after < one.before
    assert [one.key for one in happened if one.ended] == ["uid-default-a"]
    assert sizes == {"uid-default-a": 0, "uid-default-b": 4}


def test_nothing_happens_to_a_cluster_at_rest() -> None:
    job = elastic_job("a", 4, 4, gpu=1, status={})
    taken = cluster(job, running(job, {"n0": 4}))
    assert list(Future(taken, Memory(), now=NOW, settings=CFS).run(NOW + 86400, 50)) == []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (40.0, "starts in about 40 s (20-60)"),
        (240.0, "starts in about 4 min (2-6)"),
        (3000.0, "starts in about 50 min (25-75)"),
        (4 * 3600.0, "starts in about 4 h (2-6)"),
        (5 * 86400.0, "starts in about 5 days (2.5-8)"),
    ],
)
def test_times_are_coarse(seconds: float, words: str) -> None:
    found = StartForecast("a", seconds, seconds / 2, seconds * 1.5)
    assert found.words == words
