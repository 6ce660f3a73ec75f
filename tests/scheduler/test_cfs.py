"""The GPU-priority CFS scheduler (design 001), each rule by name. It is the default policy."""

import pytest

from edl.scheduler.memory import Memory
from edl.scheduler.policies.cfs import Cfs
from edl.scheduler.policies.score_tree import ScoreTree
from edl.scheduler.reasons.codes import Code
from edl.scheduler.settings import INTERVAL, Weights
from edl.scheduler.snapshot.types import JobFacts
from edl.scheduler.unit import Unit, resource_score
from tests.scheduler.makers import (
    NOW,
    Data,
    elastic_job,
    node,
    of,
    planned,
    pods_of,
    resources,
    running,
    snapshot,
    targets,
    training_job,
)


def unit(name: str, served: float = 0.0, priority: int = 1000, size: int = 1, created: float = 0.0) -> Unit:
    facts = JobFacts(
        kind="TrainingJob",
        api_version="paddlepaddle.org/v1",
        namespace="default",
        name=name,
        min=1,
        max=9,
        start=1,
        current=size,
        priority=priority,
        pod_seconds=served,
        created=created,
    )
    return Unit(facts, NOW, 1000)


# The interfaces


def test_a_unit_has_priority_bounds_size_running_pods_and_resource_score() -> None:
    job = running(training_job("a", 2, 6, cpu=2, memory="10Gi", gpu=1), {"n1": 3})
    facts = snapshot(node("n1", gpu=8), job).jobs[0]
    one = Unit(facts, NOW, resource_score(1, 2000, 10 * 2**30, Weights()))
    assert (one.floor, one.ceiling, one.size, one.facts.running) == (2, 6, 3, 3)
    assert one.resource_score == 103_000
    assert one.priority == 1000


def test_the_tree_adds_removes_finds_both_ends_counts_and_traverses() -> None:
    a, b, c = unit("a", served=30), unit("b", served=10), unit("c", served=20)
    tree = ScoreTree(Cfs().serving_order)
    assert (tree.leftmost(), tree.rightmost(), len(tree)) == (None, None, 0)
    for one in (a, b, c):
        tree.add(one)
    assert (tree.leftmost(), tree.rightmost(), len(tree)) == (b, a, 3)
    seen: list[str] = []
    tree.traverse(lambda one: seen.append(one.facts.name), lambda one: seen.append(one.facts.name.upper()))
    assert seen == ["b", "B", "c", "C", "a", "A"]
    tree.remove(b)
    assert (tree.leftmost(), len(tree)) == (c, 2)
    with pytest.raises(ValueError, match="is not in the tree"):
        tree.remove(b)
    with pytest.raises(ValueError, match="is in the tree already"):
        tree.add(c)


@pytest.mark.parametrize(
    ("gpus", "millicores", "memory", "score"),
    [(1, 4000, 8 * 2**30, 104_800), (0, 2000, 0, 2000), (0, 100, 2**20, 1000), (8, 64_000, 2**40, 966_400)],
)
def test_resource_score_is_100_per_gpu_1_per_core_a_tenth_per_gib_at_least_1(
    gpus: int, millicores: int, memory: int, score: int
) -> None:
    assert resource_score(gpus, millicores, memory, Weights()) == score


def test_resource_weights_can_be_chosen() -> None:
    assert resource_score(1, 1000, 0, Weights(gpu=10, cpu=5)) == 15_000


def test_score_is_weighted_running_time_over_priority_and_counts_one_more_interval() -> None:
    one = unit("a", served=500, priority=100, size=2)
    assert one.past_score == 1000 * 500 / 100
    assert one.score == 1000 * (500 + 2 * INTERVAL) / 100


def test_higher_priority_is_served_first_not_last() -> None:
    """001's formula multiplies by the priority, against its own text."""
    tree = ScoreTree(Cfs().serving_order, [unit("low", 100, priority=10), unit("high", 100, priority=10_000)])
    left = tree.leftmost()
    assert left is not None
    assert left.facts.name == "high"


def test_ties_go_to_higher_priority_then_older_then_name() -> None:
    units = [
        unit("d", size=0, created=5),
        unit("c", size=0, created=5),
        unit("b", size=0, created=1),
        unit("a", size=0, priority=10_000, created=9),
    ]
    order: list[str] = []
    ScoreTree(Cfs().serving_order, units).traverse(lambda one: order.append(one.facts.name))
    assert order == ["a", "b", "c", "d"]


# The algorithm, step by step


def pair(*, a: int = 1, b: int = 1, cpu: object = 6, age_a: int = 1000, age_b: int = 10) -> list[Data]:
    """Two equal jobs of 1 to 8 instances of one core; a has run for longer."""
    first, second = elastic_job("a", 1, 8), elastic_job("b", 1, 8)
    objects: list[Data] = [node("n1", cpu=cpu)]
    for job, size, age in ((first, a, age_a), (second, b, age_b)):
        objects += running(job, {"n1": size}, age=age)
    return objects


def test_step_1_the_left_most_job_which_ran_least_is_served_first() -> None:
    assert targets(planned(pair(cpu=3), max_load="1")) == {"a": 1, "b": 2}


def test_the_left_most_is_picked_anew_after_each_step() -> None:
    """b is 120 pod-seconds behind: two of its planned pods make up for them, from then on they take turns."""
    plan = planned(pair(cpu=8, age_a=130, age_b=10), max_load="1")
    assert targets(plan) == {"a": 3, "b": 5}


def test_step_2_a_new_job_is_created_at_its_initial_size_if_that_fits() -> None:
    """It is raised to that before others that are there only to grow; with less room it gets what there is."""
    other = running(elastic_job("other", 1, 8), {"n1": 1})
    assert targets(planned(node("n1", cpu=4), elastic_job("new", 1, 8, replicas=3), other)) == {"new": 2, "other": 1}
    assert targets(planned(node("n1", cpu=4), elastic_job("new", 1, 8, replicas=3), other, max_load="1"))["new"] == 3


def test_step_2_a_new_job_that_does_not_fit_is_not_created_and_the_next_one_is_tried() -> None:
    plan = planned(node("n1", cpu=2), elastic_job("large", 1, 1, cpu=4), elastic_job("small", 1, 1), max_load="1")
    assert targets(plan) == {"large": 0, "small": 1}
    assert of(plan, "large").reason == "waits: needs 4 CPU on one node, the largest has 2 (n1)"


def test_step_3_a_running_job_grows_by_ones_into_free_resources() -> None:
    job = elastic_job("a", 1, 8)
    assert targets(planned(node("n1", cpu=5), running(job, {"n1": 2}), max_load="1")) == {"a": 5}


def test_step_4_a_finished_job_gives_up_its_pserver_and_master() -> None:
    servers = {"min-instance": 1, "resources": resources(2)}
    done = training_job("done", 2, 2, status={"phase": "succeeded"}, pserver=servers)
    objects = [node("n1", cpu=4), done, pods_of(done, ["n1"], "pserver"), pods_of(done, ["n1"], "master")]
    plan = planned(objects, elastic_job("new", 4, 4), max_load="1")
    assert of(plan, "done").target == 0
    assert of(plan, "done").leavers == {"pserver": {"n1": 1}, "master": {"n1": 1}}
    assert of(plan, "done").reason == "finished: holds nothing (succeeded)"
    assert of(plan, "new").reason == "waits: room is being made: pods are leaving"


def test_step_5_and_6_steps_go_on_until_nobody_moves_and_add_up_to_one_change() -> None:
    plan = planned(pair(cpu=10, age_a=10, age_b=10), max_load="1")
    assert targets(plan) == {"a": 5, "b": 5}
    assert of(plan, "a").reason == "+4: 8 of 10 CPU were free; limited by what is free"


def test_step_7_if_nobody_moved_the_right_most_gives_where_shares_are_far_from_even() -> None:
    plan = planned(pair(a=7, b=1, cpu=8), max_load="1")
    assert targets(plan) == {"a": 4, "b": 1}
    assert of(plan, "a").code is Code.EVENED
    assert of(plan, "a").reason == "-3: evens out shares with default/b"
    assert of(plan, "b").reason == "holds 1: room is being made for 3 more"


@pytest.mark.parametrize(("a", "b"), [(4, 4), (5, 4), (4, 5)])
def test_step_7_moves_nothing_that_would_not_bring_shares_closer(a: int, b: int) -> None:
    assert targets(planned(pair(a=a, b=b, cpu=a + b), max_load="1")) == {"a": a, "b": b}


def test_step_7_shares_are_weighted_by_priority() -> None:
    """Ten times the priority, ten times the share: 8 to 1 is still less than fair."""
    high = elastic_job("high", 1, 20, annotations={"edl.dev/priority": "Production"})
    low = elastic_job("low", 1, 20)
    plan = planned(node("n1", cpu=11), running(high, {"n1": 8}), running(low, {"n1": 3}), max_load="1")
    assert targets(plan) == {"high": 8, "low": 1}


def test_step_7_nothing_moves_from_a_gpu_job_to_a_cpu_only_job() -> None:
    gpus = elastic_job("gpus", 1, 8, gpu=1)
    cpus = elastic_job("cpus", 1, 8)
    plan = planned(node("n1", cpu=8, gpu=8), running(gpus, {"n1": 7}), running(cpus, {"n1": 1}), max_load="1")
    assert targets(plan) == {"gpus": 7, "cpus": 1}


def test_a_gpu_does_not_idle_for_want_of_the_cpu_that_a_cpu_only_job_holds() -> None:
    """001, case 1: on GPU machines GPU jobs come before CPU-only jobs."""
    gpus, cpus = elastic_job("gpus", 1, 8, gpu=1, cpu=2), elastic_job("cpus", 1, 8)
    plan = planned(node("n1", cpu=8, gpu=4), running(gpus, {"n1": 2}), running(cpus, {"n1": 4}), max_load="1")
    assert targets(plan) == {"gpus": 2, "cpus": 2}
    assert of(plan, "gpus").reason == "holds 2: room is being made for 1 more"


def test_gpu_jobs_are_served_before_cpu_only_jobs() -> None:
    """Both could use the last core; the GPU job gets the CPU that goes with its GPU."""
    gpus, cpus = elastic_job("z-gpus", 1, 2, gpu=1), elastic_job("a-cpus", 1, 2)
    plan = planned(node("n1", cpu=3, gpu=2), gpus, cpus, max_load="1")
    assert targets(plan) == {"z-gpus": 2, "a-cpus": 1}


def test_cpu_only_jobs_prefer_nodes_without_gpus() -> None:
    plan = planned(node("a-gpus", cpu=8, gpu=4), node("b-plain", cpu=8), elastic_job("cpus", 2, 2), max_load="1")
    assert of(plan, "cpus").placements == {"worker": {"b-plain": 2}}


def test_a_gpu_job_gets_the_cpu_and_memory_it_asks_with_its_gpus() -> None:
    """Four GPUs are free, but CPU for two of them."""
    plan = planned(node("n1", cpu=9, gpu=4), elastic_job("a", 1, 4, gpu=1, cpu=4), max_load="1")
    assert targets(plan) == {"a": 2}


def test_a_newcomer_enters_at_the_least_score_among_the_running() -> None:
    """Its own running time is nothing; it is not served before everyone until it has caught up with years of
    theirs.
    """
    old = elastic_job("old", 1, 8)
    objects = [node("n1", cpu=6), running(old, {"n1": 2}, age=100_000)]
    plan = planned(objects, elastic_job("new", 1, 8), max_load="1")
    assert targets(plan) == {"old": 3, "new": 3}
    entry = plan.memory.entries["uid-default-new"]
    assert entry == pytest.approx(1100 * 200_000 / 1000)


def test_the_entry_of_a_newcomer_lasts() -> None:
    """Next cycle it runs: with the entry remembered both grow alike, without it the newcomer alone would."""
    old, new = elastic_job("old", 1, 8), elastic_job("new", 1, 8)
    objects = [node("n1", cpu=8), running(old, {"n1": 2}, age=100_000), running(new, {"n1": 2}, age=10)]
    remembered = Memory(entries={"uid-default-new": 1100 * 200_000 / 1000})
    assert targets(planned(objects, memory=remembered, max_load="1")) == {"old": 4, "new": 4}
    assert targets(planned(objects, max_load="1")) == {"old": 2, "new": 6}


def test_offline_jobs_get_more_than_experiments_when_the_cluster_is_busy() -> None:
    """Case 2 of 001: shares follow priorities."""
    jobs = [
        elastic_job("experiment", 1, 50, annotations={"edl.dev/priority": "Experiment"}),
        elastic_job("offline", 1, 50, annotations={"edl.dev/priority": "Offline"}),
    ]
    assert targets(planned(node("n1", cpu=22), jobs, max_load="1")) == {"experiment": 2, "offline": 20}


def test_quota_of_users_is_not_exceeded() -> None:
    from tests.scheduler.makers import quota

    plan = planned(node("n1", cpu=64), quota("default", pods=3), elastic_job("a", 1, 50))
    assert targets(plan) == {"a": 3}
    assert of(plan, "a").reason == "+3: 64 of 64 CPU were free; limited by its quota"


def test_one_queue_jobs_that_have_not_started_consume_nothing() -> None:
    plan = planned(node("n1", cpu=1), elastic_job("waits", 4, 4), max_load="1")
    assert plan.cluster.used_after["cpu"] == 0
    assert of(plan, "waits").roles == {"worker": 0}
