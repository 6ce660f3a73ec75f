"""The decisions about sizes, by number (docs/decisions.md): 10, 18 to 22 and 24 to 27. 23 is in test_foreign."""

from typing import Any

import pytest

from edl.scheduler.memory import Memory
from edl.scheduler.reasons import Code
from tests.scheduler.makers import (
    ALL,
    NOW,
    elastic_job,
    node,
    of,
    planned,
    pods_of,
    running,
    scaled,
    targets,
    training_job,
)


def priority(level: str | int) -> dict[str, str]:
    return {"edl.dev/priority": str(level)}


def test_10_any_size_between_min_and_max_is_granted_replicas_or_not() -> None:
    plan = planned(node("n1", cpu=9), elastic_job("a", 1, 8, replicas=3), **ALL)
    assert targets(plan) == {"a": 8}


@pytest.mark.parametrize(("asked", "target"), [(2, 2), (6, 6), (8, 7)])
def test_10_a_manual_scale_is_obeyed_and_the_scheduler_goes_on_from_there(asked: int, target: int) -> None:
    job = elastic_job("a", 1, 8, replicas=asked)
    objects = [node("n1", cpu=7), running(job, {"n1": 4})]
    seen = Memory(starts={"uid-default-a": 4})
    plan = planned(objects, memory=seen, **ALL)
    assert targets(plan) == {"a": target}
    assert plan.memory.starts == {"uid-default-a": asked}
    assert targets(planned(objects, memory=plan.memory, **ALL)) == {"a": 7}


def test_10_a_manual_scale_overrides_the_freezing_window() -> None:
    job = elastic_job("a", 1, 8, replicas=2, status=scaled(5, 4))
    plan = planned(node("n1", cpu=8), running(job, {"n1": 4}), memory=Memory(starts={"uid-default-a": 4}), **ALL)
    assert targets(plan) == {"a": 2}
    assert of(plan, "a").reason == "-2: its user asked for 2"


@pytest.mark.parametrize("size", [2, 5, 7])
def test_10_a_pin_holds_exactly_the_size_the_user_wrote(size: int) -> None:
    job = elastic_job("a", 1, 8, replicas=5, annotations={"edl.dev/pin": "true"})
    assert targets(planned(node("n1", cpu=8), running(job, {"n1": size}), **ALL)) == {"a": 5}


def test_18_a_suspended_job_frees_its_pods() -> None:
    job = elastic_job("a", 1, 4, spec={"suspend": True})
    decision = of(planned(node("n1", cpu=8), running(job, {"n1": 3}), **ALL), "a")
    assert (decision.target, decision.leavers) == (0, {"worker": {"n1": 3}})
    assert decision.code is Code.SUSPENDED


def test_18_admission_create_makes_the_pods_of_a_waiting_job_at_once() -> None:
    job = elastic_job("a", 3, 4, annotations={"edl.dev/admission": "create"})
    decision = of(planned(node("n1", cpu=2), job, **ALL), "a")
    assert decision.target == 3
    assert decision.reason.startswith("+3: pods are created at once, though needs 3 CPU in all")


def test_18_pods_created_for_an_autoscaler_are_not_withdrawn() -> None:
    job = elastic_job("a", 3, 4, annotations={"edl.dev/admission": "create"}, status=scaled(100, 3))
    plan = planned(node("n1", cpu=2), job, pods_of(job, ["", "", ""], refused=90), **ALL)
    assert targets(plan) == {"a": 3}


@pytest.mark.parametrize(
    "bad",
    [{"ready": False}, {"cordoned": True}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}],
    ids=["not ready", "cordoned", "tainted"],
)
def test_19_pods_go_on_ready_schedulable_nodes_that_they_tolerate(bad: dict[str, Any]) -> None:
    plan = planned(node("bad", cpu=64, **bad), node("good", cpu=2), elastic_job("a", 1, 9), **ALL)
    assert of(plan, "a").placements == {"worker": {"good": 2}}


def test_19_under_cfs_every_new_job_waits() -> None:
    plan = planned(node("n1", cpu=1), elastic_job("a", 2, 2), **ALL)
    assert targets(plan) == {"a": 0}


def test_19_target_0_creates_nothing() -> None:
    decision = of(planned(node("n1", cpu=1), training_job("a", 2, 2), **ALL), "a")
    assert decision.roles == {"master": 0, "trainer": 0}
    assert decision.placements == {}


def test_20_waiting_minima_are_served_before_anyone_grows() -> None:
    runs = elastic_job("runs", 1, 8, annotations=priority("Production"))
    plan = planned(node("n1", cpu=4), running(runs, {"n1": 1}), elastic_job("waits", 3, 8), **ALL)
    assert targets(plan) == {"runs": 1, "waits": 3}


def test_20_nobody_at_its_minimum_is_shrunk() -> None:
    plan = planned(node("n1", cpu=3), running(elastic_job("a", 3, 8), {"n1": 3}), elastic_job("b", 1, 1), **ALL)
    assert targets(plan) == {"a": 3, "b": 0}


def test_20_above_the_maximum_is_cut_at_once_even_when_frozen() -> None:
    job = elastic_job("a", 1, 2, status=scaled(1, 5))
    decision = of(planned(node("n1", cpu=8), running(job, {"n1": 5}), **ALL), "a")
    assert (decision.target, decision.reason) == (2, "-3: above maxReplicas 2")


def test_20_room_is_taken_no_more_than_a_minimum_needs() -> None:
    rich = elastic_job("rich", 1, 20)
    plan = planned(node("n1", cpu=10), running(rich, {"n1": 10}), elastic_job("new", 3, 3), **ALL)
    assert targets(plan) == {"rich": 7, "new": 0}


def test_20_growth_waits_until_the_pods_that_leave_are_gone() -> None:
    rich, new = elastic_job("rich", 1, 20), elastic_job("new", 3, 3)
    leaving = pods_of(rich, {"n1": 3}, first=50, leaving=20)
    plan = planned(node("n1", cpu=10), running(rich, {"n1": 7}), leaving, new, **ALL)
    assert targets(plan) == {"rich": 7, "new": 0}
    assert of(plan, "new").reason == "waits: room is being made: pods are leaving"
    assert targets(planned(node("n1", cpu=10), running(rich, {"n1": 7}), new, **ALL)) == {"rich": 7, "new": 3}


def test_20_pods_that_will_not_go_are_not_waited_for() -> None:
    rich, new = elastic_job("rich", 1, 20), elastic_job("new", 3, 3)
    stuck = pods_of(rich, {"n1": 3}, first=50, leaving=-600)
    plan = planned(node("n1", cpu=10), running(rich, {"n1": 7}), stuck, new, **ALL)
    assert targets(plan) == {"rich": 4, "new": 0}


def test_20_a_job_that_lost_pods_is_below_its_minimum_and_comes_first() -> None:
    hurt = elastic_job("hurt", 3, 3, status=scaled(900, 3) | {"phase": "Running"})
    rich = elastic_job("rich", 1, 20)
    plan = planned(node("n1", cpu=10), hurt, pods_of(hurt, {"n1": 1}), running(rich, {"n1": 9}), **ALL)
    assert targets(plan) == {"hurt": 3, "rich": 7}
    assert of(plan, "hurt").reason == "+2: as it was granted before"


@pytest.mark.parametrize(
    ("level", "value"),
    [("Experiment", 10), ("Experiement", 10), ("Offline", 100), ("Normal", 1000), ("Production", 10000), (7, 7)],
)
def test_22_priorities_have_names_and_numbers(level: str | int, value: int) -> None:
    from tests.scheduler.makers import snapshot

    assert snapshot(elastic_job("a", 1, 1, annotations=priority(level))).jobs[0].priority == value


def test_22_a_priority_class_counts_and_a_namespace_may_cap() -> None:
    from tests.scheduler.makers import snapshot

    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "important"},
        "value": 5000,
    }
    job = elastic_job("a", 1, 1, template={"priorityClassName": "important"})
    assert snapshot(important, job).jobs[0].priority == 5000
    capped = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "annotations": {"edl.dev/max-priority": "Offline"}},
    }
    assert snapshot(important, capped, job).jobs[0].priority == 100


def test_22_higher_priority_is_admitted_first() -> None:
    jobs = [elastic_job("a", 2, 2), elastic_job("b", 2, 2, annotations=priority("Production"))]
    assert targets(planned(node("n1", cpu=3), jobs, **ALL)) == {"a": 0, "b": 2}


def waiting_gang(age: int) -> list[Any]:
    """Four cores are free of eight; the gang needs six and others run at their minimum."""
    return [
        node("n1", cpu=8),
        running(elastic_job("runs", 4, 4, age=5000), {"n1": 4}),
        elastic_job("gang", 6, 6, age=age, annotations=priority("Experiment")),
        elastic_job("small", 2, 2, age=1, annotations=priority("Production")),
    ]


def test_22_small_newcomers_may_overtake_a_gang_that_has_waited_less_than_five_minutes() -> None:
    assert targets(planned(waiting_gang(age=290), **ALL))["small"] == 2


def test_22_the_oldest_waiting_gang_blocks_later_admissions_after_five_minutes() -> None:
    plan = planned(waiting_gang(age=310), **ALL)
    assert targets(plan)["small"] == 0
    assert of(plan, "small").reason == "waits: default/gang has waited longest and comes first"


def test_22_it_does_not_block_growth() -> None:
    runs = elastic_job("runs", 4, 8, age=5000)
    objects = [node("n1", cpu=8), running(runs, {"n1": 4}), elastic_job("gang", 6, 6, age=900)]
    assert targets(planned(objects, **ALL)) == {"runs": 8, "gang": 0}


def test_22_a_gang_that_could_never_run_blocks_nobody() -> None:
    objects = [node("n1", cpu=8), elastic_job("absurd", 9, 9, age=900), elastic_job("small", 2, 2)]
    assert targets(planned(objects, **ALL)) == {"absurd": 0, "small": 2}


def test_22_a_gang_for_other_nodes_blocks_nobody_here() -> None:
    east = {"nodeSelector": {"pool": "east"}}
    west = {"nodeSelector": {"pool": "west"}}
    objects = [
        node("e", cpu=8, labels={"pool": "east"}),
        node("w", cpu=8, labels={"pool": "west"}),
        running(elastic_job("runs", 4, 4, template=east), {"e": 4}),
        elastic_job("gang", 6, 6, age=900, template=east),
        elastic_job("other", 2, 2, template=west),
        elastic_job("same", 2, 2, template=east),
    ]
    plan = planned(objects, **ALL)
    assert targets(plan) == {"runs": 4, "gang": 0, "other": 2, "same": 0}


def test_22_waiting_is_counted_anew_for_a_job_that_ran_before() -> None:
    """Suspended for an hour and resumed just now: it has not waited an hour."""
    gang = elastic_job("gang", 6, 6, age=5000, status={"scale": {"target": 0, "podSeconds": 77.0}})
    objects = [node("n1", cpu=8), running(elastic_job("runs", 4, 4), {"n1": 4}), gang]
    objects.append(elastic_job("small", 2, 2, age=-200))
    first = planned(objects, **ALL)
    assert targets(first)["small"] == 2
    assert first.memory.waiting["uid-default-gang"] == NOW
    later = planned(objects, now=NOW + 301, memory=first.memory, **ALL)
    assert targets(later)["small"] == 0
