"""The first autoscaler's rules (design 000), each by name, under `--policy fulfillment`."""

from typing import Any

import pytest

from edl.scheduler.reasons.codes import Code
from tests.scheduler.makers import (
    Data,
    elastic_job,
    node,
    of,
    planned,
    pod,
    resources,
    running,
    snapshot,
    targets,
    training_job,
)

POLICY: dict[str, Any] = {"policy": "fulfillment", "max_load": "1"}


def sample() -> Data:
    """The TrainingJob that 000 prints."""
    role = {"resources": {"limits": {"cpu": "800m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "600Mi"}}}
    return training_job("paddlejob", 2, 6, cpu="200m", memory="200Mi", master=role, pserver=role)


def test_the_sample_gets_one_master_two_pservers_and_its_trainers() -> None:
    decision = of(planned(node("n1", cpu=8), sample(), **POLICY), "paddlejob")
    assert decision.roles == {"master": 1, "pserver": 2, "trainer": 6}
    assert decision.reason == "+6: 8 of 8 CPU were free; limited by max-instance"


def test_elastic_means_min_below_max() -> None:
    """000 says "equals": a slip (decision 1)."""
    plan = planned(node("n1"), training_job("fixed", 2, 2), training_job("elastic", 2, 4), **POLICY)
    assert targets(plan) == {"fixed": 2, "elastic": 4}


def test_without_a_master_the_job_is_created_and_never_scaled() -> None:
    job = training_job("plain", 2, 6, master=None)
    assert of(planned(node("n1"), job, **POLICY), "plain").target == 2
    held = of(planned(node("n1"), running(job, {"n1": 3}), **POLICY), "plain")
    assert held.target == 3
    assert held.reason == "holds 3: it has no master (spec.master)"


@pytest.mark.parametrize(
    ("least", "most", "size", "score"),
    [(2, 6, 2, 0.0), (2, 6, 4, 0.5), (2, 6, 6, 1.0), (3, 3, 3, 1.0)],
)
def test_fulfillment_score(least: int, most: int, size: int, score: float) -> None:
    from edl.scheduler.unit import Unit

    facts = snapshot(node("n1"), running(training_job("a", least, most), {"n1": size})).jobs[0]
    assert Unit(facts, 0.0, 1000).fulfilment == score


def test_an_available_gpu_goes_to_the_least_fulfilled_job() -> None:
    """a is at 1 of [1, 3], b at 3 of [1, 5]: 0 and 0.5."""
    nodes = node("n1", cpu=64, gpu=5)
    a, b = training_job("a", 1, 3, gpu=1), training_job("b", 1, 5, gpu=1)
    plan = planned(nodes, running(a, {"n1": 1}), running(b, {"n1": 3}), **POLICY)
    assert targets(plan) == {"a": 2, "b": 3}


def test_the_score_is_computed_anew_after_every_step() -> None:
    """Not round robin: 3 free, a at 11 of [1, 21] and b at 1 of [1, 21]; all three are b's."""
    nodes = node("n1", cpu="15100m")
    a, b = elastic_job("a", 1, 21), elastic_job("b", 1, 21)
    plan = planned(nodes, running(a, {"n1": 11}), running(b, {"n1": 1}), **POLICY)
    assert targets(plan) == {"a": 11, "b": 4}


def test_a_fulfilled_job_gets_no_more() -> None:
    plan = planned(node("n1", cpu=32, gpu=8), training_job("a", 1, 3, gpu=1), **POLICY)
    assert targets(plan) == {"a": 3}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"gpu": 1}, {"gpu": 2}),
        ({"gpu": 1, "cpu": 1}, {"gpu": 1, "cpu": 2}),
        ({"gpu": 1, "cpu": 1, "memory": "1Gi"}, {"gpu": 1, "cpu": 1, "memory": "2Gi"}),
        ({"gpu": 1}, {"gpu": 1}),
    ],
    ids=["gpus", "cpu", "memory", "name"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_tie_breakers_ascend_for_growth(first: dict[str, object], second: dict[str, object], turned: bool) -> None:
    """Fewer GPUs per instance, less CPU, less memory, then the name: whoever comes first gets what is left."""
    names = ("z", "y") if turned and first != second else ("y", "z")
    a, b = elastic_job(names[0], 1, 2, **first), elastic_job(names[1], 1, 2, **second)
    gpus = int(str(first["gpu"])) + int(str(second["gpu"]))
    nodes = node("n1", cpu=64, gpu=gpus + int(str(first["gpu"])))
    plan = planned(nodes, running(a, {"n1": 1}), running(b, {"n1": 1}), **POLICY)
    assert targets(plan)[names[0]] == 2
    assert targets(plan)[names[1]] == 1


def test_a_gpu_is_taken_from_the_most_fulfilled_for_another_gpu_jobs_minimum() -> None:
    nodes = node("n1", cpu=64, gpu=8)
    rich, poor = training_job("rich", 1, 6, gpu=1), training_job("poor", 1, 6, gpu=1)
    new = training_job("new", 2, 4, gpu=1)
    plan = planned(nodes, running(rich, {"n1": 6}), running(poor, {"n1": 2}), new, **POLICY)
    assert targets(plan) == {"rich": 4, "poor": 2, "new": 0}
    assert of(plan, "rich").code is Code.MADE_ROOM
    assert "the minimum of default/new (2 x trainer, 1 GPU each)" in of(plan, "rich").reason
    assert of(plan, "new").reason == "waits: room is being made by default/rich"


def test_nothing_is_taken_when_no_minimum_is_unmet() -> None:
    """Nothing moves between jobs that have their minimum, however uneven they are."""
    nodes = node("n1", cpu="60100m", memory="512Gi")
    a, b = elastic_job("a", 2, 60), elastic_job("b", 2, 60)
    plan = planned(nodes, running(a, {"n1": 58}), running(b, {"n1": 2}), **POLICY)
    assert targets(plan) == {"a": 58, "b": 2}


def test_gpu_jobs_at_their_minimum_are_left_alone_and_the_new_job_waits() -> None:
    nodes = node("n1", cpu=64, gpu=4)
    a, b = training_job("a", 2, 6, gpu=1), training_job("b", 2, 6, gpu=1)
    plan = planned(nodes, running(a, {"n1": 2}), running(b, {"n1": 2}), training_job("new", 1, 4, gpu=1), **POLICY)
    assert targets(plan) == {"a": 2, "b": 2, "new": 0}
    assert of(plan, "new").reason == "waits: needs 1 GPU on one node, most free on one node is 0 (n1)"


def test_cpu_jobs_at_their_minimum_are_left_alone_and_the_new_job_starts_optimistically() -> None:
    nodes = node("n1", cpu="4200m")
    a, b = training_job("a", 2, 6), training_job("b", 2, 6)
    plan = planned(nodes, running(a, {"n1": 2}), running(b, {"n1": 2}), training_job("new", 2, 4), **POLICY)
    assert targets(plan) == {"a": 2, "b": 2, "new": 2}
    assert of(plan, "new").code is Code.OPTIMISTIC
    assert of(plan, "new").reason.startswith("+2: starts optimistically, though needs 1 CPU on one node")


def test_a_cpu_job_gives_for_any_minimum_a_gpu_job_for_a_gpu_jobs_only() -> None:
    """Decision 20."""
    nodes = node("n1", cpu="8200m", gpu=8)
    gpu_job = training_job("gpus", 1, 4, gpu=1, cpu=1)
    cpu_job = training_job("cpus", 1, 4, cpu=1)
    full = [running(gpu_job, {"n1": 4}), running(cpu_job, {"n1": 4})]
    for_gpu = planned(nodes, full, training_job("new", 1, 2, gpu=1), **POLICY)
    assert targets(for_gpu)["new"] == 0
    assert targets(for_gpu)["gpus"] + targets(for_gpu)["cpus"] < 8
    only_gpu_above = planned(
        nodes,
        running(gpu_job, {"n1": 4}),
        running(training_job("cpus", 4, 4), {"n1": 4}),
        training_job("new", 1),
        **POLICY,
    )
    assert targets(only_gpu_above)["gpus"] == 4


def test_shrinking_breaks_ties_the_other_way_round() -> None:
    """Equally fulfilled: the one with more GPUs per instance gives."""
    nodes = node("n1", cpu=64, gpu=6)
    small, large = training_job("a-small", 1, 2, gpu=1), training_job("b-large", 1, 2, gpu=2)
    plan = planned(
        nodes, running(small, {"n1": 2}), running(large, {"n1": 2}), training_job("new", 1, 1, gpu=1), **POLICY
    )
    assert targets(plan) == {"a-small": 2, "b-large": 1, "new": 0}


def test_available_is_capacity_less_limits_and_requests_where_there_are_none() -> None:
    """8 cores, a pod that asks for 1 and may use 6: 2 are available by limits, 7 by requests."""
    loud = pod("loud", "n1", cpu=1)
    loud["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "6"
    objects = [node("n1", cpu=8), loud, elastic_job("a", 1, 9)]
    assert targets(planned(objects, **POLICY)) == {"a": 2}
    assert targets(planned(objects, available="requests", **POLICY)) == {"a": 7}
    without = pod("quiet", "n1", cpu=3)
    del without["spec"]["containers"][0]["resources"]["limits"]
    assert targets(planned(node("n1", cpu=8), without, elastic_job("a", 1, 9), **POLICY)) == {"a": 5}


def test_instances_that_fit_in_sum_but_on_no_node_are_no_target() -> None:
    """B6, B15: three nodes with one core each do not hold an instance of two."""
    nodes = [node(f"n{number}", cpu=1) for number in range(3)]
    plan = planned(nodes, elastic_job("a", 1, 3, cpu=2, gpu=0), policy="cfs")
    assert targets(plan) == {"a": 0}


@pytest.mark.parametrize("policy", ["cfs", "fulfillment"])
def test_the_last_three_percent_do_not_make_it_loop(policy: str) -> None:
    """B1: 10 GPUs, 9 in use, a job at 1 of [1, 3], the load cap at its default."""
    others = training_job("others", 8, 8, gpu=1, master=None)
    job = training_job("a", 1, 3, gpu=1, master={"resources": resources("100m", "100Mi")})
    objects = [node("n1", cpu=64, gpu=10), running(others, {"n1": 8}), running(job, {"n1": 1})]
    plan = planned(objects, policy=policy)
    assert targets(plan) == {"a": 2, "others": 8}
    assert plan.steps <= 4
