"""`goodput`: instances go where they speed up most, a change pays for its pause, and nonsense breaks no plan."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from edl.scheduler.memory import Memory
from edl.scheduler.plan import Plan, plan
from edl.scheduler.policies.marginal_gain import Bidder, Choice, choices_of, divide, upper_hull
from edl.scheduler.policies.price import Demand, worths
from edl.scheduler.settings import Settings
from edl.throughput.model import JobModel, job_model
from tests.scheduler.makers import NOW, Data, elastic_job, node, of, running, snapshot, targets

PERFECT = JobModel(tuple(range(1, 17)), tuple(float(size) for size in range(1, 17)), explored=16)
FLAT = JobModel((1, 2, 16), (1.0, 1.1, 1.2), explored=16)
STEPS = JobModel((1, 2, 3, 4, 8), (1.0, 1.1, 1.2, 4.0, 8.0), explored=8)  # only whole nodes help
PEAKED = JobModel((1, 2, 4, 8), (1.0, 2.0, 4.0, 3.0), explored=8)


def nodes(count: int, gpu: int = 4) -> list[Data]:
    return [node(f"n{number}", cpu=64, memory="256Gi", gpu=gpu) for number in range(count)]


def job(name: str, least: int = 1, most: int = 16, **more: Any) -> Data:
    return elastic_job(name, least, most, gpu=1, **more)


def planned(models: dict[str, JobModel | None], *objects: Any, memory: Memory | None = None, **facts: Any) -> Plan:
    taken = snapshot(*objects)
    jobs = tuple(structs.replace(one, model=models.get(one.name), **facts) for one in taken.jobs)
    chosen = Settings(policy="goodput", max_load="1")
    return plan(structs.replace(taken, jobs=jobs), memory, now=NOW, settings=chosen)


def test_a_job_that_scales_gets_more_than_one_that_does_not() -> None:
    result = planned({"good": PERFECT, "poor": FLAT}, nodes(4), job("good"), job("poor"))
    assert targets(result) == {"good": 15, "poor": 1}


def test_jobs_without_models_share_alike() -> None:
    assert targets(planned({}, nodes(4), job("a"), job("b"))) == {"a": 8, "b": 8}


def test_a_priority_weighs_the_time_of_a_job() -> None:
    urgent = job("urgent", annotations={"edl.dev/priority": "Production"})
    result = targets(planned({}, nodes(4), job("a"), urgent))
    assert result["urgent"] > result["a"]


def test_whole_nodes_where_the_curve_says_so() -> None:
    assert targets(planned({"a": STEPS}, nodes(2), job("a", most=7)))["a"] in (4, 7)
    assert targets(planned({"a": STEPS, "b": STEPS}, nodes(2), job("a"), job("b"))) == {"a": 4, "b": 4}


def test_it_says_in_words_what_it_gains_and_who_was_next() -> None:
    slower = JobModel(tuple(range(1, 9)), tuple(size**0.5 for size in range(1, 9)), explored=16)
    result = planned({"a": PERFECT, "b": slower}, nodes(3), job("a", most=8), job("b", most=8))
    assert of(result, "a").reason == "+8: 8x of its throughput for 7 GPUs; next best default/b 2x"


def test_a_model_is_trusted_to_four_times_what_was_measured() -> None:
    young = structs.replace(PERFECT, explored=1)
    assert targets(planned({"a": young}, nodes(4), job("a"))) == {"a": 4}


def test_capacity_moves_to_whom_it_helps_and_the_reasons_say_so() -> None:
    poor, good = job("poor", status={}), job("good")
    first = planned(
        {"poor": FLAT, "good": PERFECT},
        nodes(2),
        running(poor, {"n0": 4, "n1": 3}),
        running(good, {"n1": 1}),
        poor,
        good,
    )
    assert targets(first) == {"poor": 1, "good": 1}
    assert of(first, "poor").reason == "-6: more is made of them by default/good"
    assert of(first, "good").code == "RoomComing"
    assert first.memory.promises


@pytest.mark.parametrize(("pause", "moves"), [(2.0, True), (250.0, False)])
def test_a_change_must_pay_for_its_pause(pause: float, moves: bool) -> None:
    some = JobModel((1, 2, 4, 8), (1.0, 2.0, 4.0, 5.0), explored=8)
    a = job("a", most=8)
    result = planned({"a": some}, nodes(2), running(a, {"n0": 4}), a, rescale_seconds=pause)
    assert (targets(result)["a"] == 8) is moves


def test_a_job_that_is_about_to_end_is_left_alone() -> None:
    ending = structs.replace(PERFECT, remaining=20.0)
    a = job("a", most=16)
    result = planned({"a": ending}, nodes(4), running(a, {"n0": 4}), a, rescale_seconds=10.0)
    assert targets(result) == {"a": 4}


def test_a_job_that_is_faster_smaller_is_made_smaller() -> None:
    a = job("a", most=8)
    result = planned({"a": PEAKED}, nodes(2), running(a, {"n0": 4, "n1": 4}), a)
    assert targets(result) == {"a": 4}
    assert of(result, "a").code == "FasterSmaller"


def test_instances_are_brought_together_where_that_is_faster() -> None:
    split = job_model((1, 2, 4), (1.0, 2.0, 4.0), scattered=(1.0, 1.0, 2.0), explored=2)
    a = job("a", most=16)
    result = planned({"a": split}, nodes(3), running(a, {"n0": 1, "n1": 1}), a)
    assert of(result, "a").placements == {"worker": {"n2": 4}}
    assert result.memory.relocations[of(result, "a").uid].size == 4
    grown = planned({"a": split}, nodes(3), running(a, {"n0": 1, "n1": 1, "n2": 4}), a, memory=result.memory, target=6)
    assert of(grown, "a").leavers == {"worker": {"n0": 1, "n1": 1}}
    assert targets(grown) == {"a": 4}
    assert not grown.memory.relocations


def test_a_job_that_lies_about_its_progress_gets_no_more_than_its_maximum() -> None:
    liar = JobModel((1, 64), (1.0, 1e14), explored=64, remaining=1e30)
    result = targets(planned({"liar": liar}, nodes(4), job("liar", most=3), job("a", most=3)))
    assert result == {"liar": 3, "a": 3}


RATES = st.lists(st.floats(), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(RATES, st.integers(0, 40), st.one_of(st.none(), st.floats())), min_size=1, max_size=5))
def test_a_model_of_nonsense_breaks_no_plan(reported: list[tuple[list[float], int, float | None]]) -> None:
    models = {
        f"j{number}": job_model(range(1, len(rates) + 1), rates, explored=explored, remaining=remaining)
        for number, (rates, explored, remaining) in enumerate(reported)
    }
    result = targets(planned(models, nodes(2), *(job(name, most=5) for name in models)))
    assert all(1 <= size <= 5 for size in result.values())
    assert sum(result.values()) <= 8


def test_the_hull_leaves_out_what_a_mixture_beats() -> None:
    found = upper_hull([Choice(1, 1.0), Choice(2, 1.1), Choice(4, 4.0), Choice(6, 3.0), Choice(8, 5.0)])
    assert [choice.size for choice in found] == [1, 4, 8]


def test_a_division_gives_each_step_to_the_largest_gain_and_no_more_than_there_is() -> None:
    steep = Bidder(choices_of([Choice(1, 1.0), Choice(4, 4.0)]), 1.0, 1.0)
    shallow = Bidder(choices_of([Choice(1, 1.0), Choice(2, 1.1), Choice(3, 1.2), Choice(4, 2.0)]), 1.0, 1.0)
    assert divide([shallow, steep], 3) == [1, 4]
    assert divide([shallow, steep], 5) == [1, 4]
    line = Bidder(choices_of([Choice(1, 1.0), Choice(2, 2.0), Choice(3, 3.0), Choice(4, 4.0)]), 1.0, 1.0)
    assert divide([line, steep], 5) == [4, 1]
    assert divide([steep, line], 5) == [4, 3]
    assert divide([shallow, steep], 6) == [4, 4]
    assert divide([structs.replace(shallow, weight=9.0), steep], 3) == [4, 1]


def test_progress_is_worth_more_the_scarcer_capacity_is() -> None:
    demands = [Demand((1, 2, 4, 8), (1.0, 1.8, 3.0, 4.5), 8, 1.0, 1.0)] * 4
    plenty, scarce = worths(demands, 100)[0], worths(demands, 5)[0]
    assert scarce > plenty == pytest.approx(1 / 4.5, rel=0.01)
