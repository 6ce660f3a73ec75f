"""What jobs have measured reaches the plan, out of the states that the job service keeps; lies break none of them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.api.labels import LABEL_UID
from edl.scheduler.plan import Plan, plan
from edl.scheduler.settings import Settings
from tests.scheduler.makers import NOW, Data, elastic_job, node, running, snapshot, targets

MOST = 12
GOODPUT = Settings(policy="goodput", max_load="1")


def state_of(job: Data, measured: Any) -> Data:
    """The ConfigMap of a job, as `kubectl get` prints it."""
    meta = job["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{meta['name']}-pej-state",
            "namespace": meta["namespace"],
            "labels": {"edl.dev/job": meta["name"], LABEL_UID: meta["uid"]},
        },
        "data": {"throughput.json": measured if isinstance(measured, str) else json.dumps(measured)},
    }


def points(*pairs: tuple[int, float]) -> list[list[float]]:
    return [[workers, 1, 0, throughput, 60.0, 0.01, 10] for workers, throughput in pairs]


def planned(**measured: Any) -> Plan:
    """Jobs of 1 to 12 GPUs on sixteen; of each what it has measured, None for nothing."""
    jobs = {name: elastic_job(name, 1, MOST, gpu=1) for name in measured}
    states = [state_of(jobs[name], one) for name, one in measured.items() if one is not None]
    nodes = [node(f"n{number}", cpu=64, memory="256Gi", gpu=4) for number in range(4)]
    return plan(snapshot(nodes, *jobs.values(), *states), None, now=NOW, settings=GOODPUT)


def test_who_scales_by_its_own_measurements_gets_more() -> None:
    good = {"points": points((1, 100.0), (2, 200.0), (4, 400.0), (8, 800.0))}
    poor = {"points": points((1, 100.0), (2, 105.0), (4, 108.0), (8, 109.0))}
    found = targets(planned(good=good, poor=poor))
    assert found["good"] == MOST
    assert found["poor"] <= 4


def test_who_boasts_gets_its_maximum_and_no_more() -> None:
    boast = {"points": points((1, 1.0), (12, 1e14), (999_999, 1e14)), "done": 0, "total": 1, "steps": True}
    found = targets(planned(boast=boast, honest=None))
    assert found["boast"] <= MOST
    assert found["honest"] >= 1


@pytest.mark.parametrize(
    "measured",
    [
        {"points": points((1, 0.0), (2, 0.0))},
        {"points": points((1, 1e300), (2, -1e300))},
        {"points": points((0, 1.0), (-5, 1.0))},
        {"points": points((4, 100.0))},
        {"points": points((1, 100.0), (2, 50.0), (4, 25.0), (8, 1e-11))},
        {"points": points((8, 1e-11)), "done": 0, "total": 2**52, "per_step": 1e300},
        {"points": points((2, 5.0)), "pause": -1e300, "noise": -5.0, "tuned_batch": -1},
        {"points": points((2, 5.0)), "done": -5, "total": -7, "steps": True},
    ],
)
def test_a_model_of_nonsense_breaks_no_plan(measured: Data) -> None:
    found = targets(planned(odd=measured, other=None))
    assert 1 <= found["odd"] <= MOST
    assert 1 <= found["other"] <= MOST


@pytest.mark.parametrize("text", ["", "{", "[]", '{"points": 3}', '{"points": [["a"]]}'])
def test_a_state_that_cannot_be_read_is_reported_and_left_out(text: str) -> None:
    job = elastic_job("a", 1, MOST, gpu=1)
    taken = snapshot(node("n"), job, state_of(job, text))
    assert [one.model for one in taken.jobs] == [None]
    assert any("ConfigMap default/a-pej-state" in problem for problem in taken.problems)


def test_other_config_maps_are_none_of_our_business() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"throughput.json": "{"}}
    assert snapshot(node("n"), other).problems == ()


numbers = st.floats(min_value=-1e18, max_value=1e18) | st.sampled_from([0.0, 1e-300, 1e300])
some_points = st.lists(
    st.tuples(st.integers(-3, 2000), st.integers(-1, 9), st.integers(-1, 9), numbers, numbers), max_size=9
)


@given(some_points, some_points, st.integers(), st.integers(), numbers, numbers)
def test_whatever_jobs_report_the_plan_keeps_their_bounds(
    one: list[Any], two: list[Any], done: int, total: int, pause: float, per_step: float
) -> None:
    said = {"done": done % 2**62, "total": total % 2**62, "pause": pause, "per_step": per_step}
    found = targets(planned(a={"points": one, **said}, b={"points": two, "steps": True, **said}, c=None))
    assert all(1 <= target <= MOST for target in found.values())
    assert sum(found.values()) <= 16


def test_a_job_that_knows_one_size_is_shown_another_and_then_let_be() -> None:
    """Equal parts say nothing of a curve: one gets more, the others give, and everybody has learnt."""
    jobs = [elastic_job(name, 1, MOST, gpu=1, status={}) for name in "abc"]
    places: list[dict[str, int]] = [{"n0": 2}, {"n0": 1, "n1": 1}, {"n1": 2}]
    pods = [running(job, place) for job, place in zip(jobs, places, strict=True)]
    nodes = [node(f"n{number}", cpu=64, memory="256Gi", gpu=3) for number in range(2)]

    def target(*sizes: int) -> dict[str, int]:
        said = {"points": points(*((size, 10.0 * size) for size in sizes)), "pause": 20.0}
        states = [state_of(job, said) for job in jobs]
        return targets(plan(snapshot(nodes, *jobs, *pods, *states), None, now=NOW, settings=GOODPUT))

    assert sorted(target(2).values()) == [1, 1, 2], "some give first; who gets it is promised it"
    assert target(1, 2) == {"a": 2, "b": 2, "c": 2}
