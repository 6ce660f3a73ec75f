"""The decisions about sizes, by number (docs/decisions.md): 10, 18 to 22 and 24 to 27. 23 is in test_foreign."""

from typing import Any

import pytest

from edl.scheduler.memory import Memory, UserSize
from edl.scheduler.reasons.codes import Code
from tests.scheduler.makers import (
    ALL,
    NOW,
    elastic_job,
    node,
    of,
    planned,
    pods_of,
    reference,
    running,
    scaled,
    stamp,
    targets,
    training_job,
)


def priority(level: str | int) -> dict[str, str]:
    return {"edl.dev/priority": str(level)}


def test_10_any_size_between_min_and_max_is_granted_replicas_or_not() -> None:
    assert targets(planned(node("n1", cpu=9), elastic_job("a", 1, 8), **ALL)) == {"a": 8}
    plan = planned(node("n1", cpu=9), running(elastic_job("a", 1, 8, replicas=3), {"n1": 3}), **ALL)
    assert targets(plan) == {"a": 8}


@pytest.mark.case("acceptance-10")
def test_10_a_job_starts_with_replicas_and_grows_once_they_run_frozen_or_not() -> None:
    first = planned(node("n1", cpu=9), elastic_job("a", 1, 8, replicas=3), **ALL)
    assert targets(first) == {"a": 3}
    assert of(first, "a").reason.endswith("limited by replicas, the size to start with")
    job = elastic_job("a", 1, 8, replicas=3, status=scaled(0, 3))
    coming = [job, pods_of(job, {"n1": 2}), pods_of(job, [""], first=2)]
    second = planned(node("n1", cpu=9), coming, memory=first.memory, now=NOW + 2, **ALL)
    assert targets(second) == {"a": 3}
    third = planned(node("n1", cpu=9), running(job, {"n1": 3}), memory=second.memory, now=NOW + 4, **ALL)
    assert targets(third) == {"a": 8}
    stuck = planned(node("n1", cpu=9), coming, memory=second.memory, now=NOW + 90, **ALL)
    assert targets(stuck) == {"a": 8}


def sized(asked: int, target: int, seconds_ago: float = 5, **more: Any) -> dict[str, Any]:
    return elastic_job("a", 1, 8, replicas=asked, status=scaled(seconds_ago, target), **more)


@pytest.mark.case("acceptance-10")
@pytest.mark.parametrize(("asked", "target"), [(2, 2), (6, 6), (8, 7)])
def test_10_a_manual_scale_is_obeyed_held_and_the_scheduler_goes_on_from_there(asked: int, target: int) -> None:
    objects = [node("n1", cpu=7), running(sized(asked, 4), {"n1": 4})]
    plan = planned(objects, memory=Memory(starts={"uid-default-a": 4}), **ALL)
    assert targets(plan) == {"a": target}
    assert plan.memory.starts == {"uid-default-a": asked}
    after = [node("n1", cpu=7), running(sized(asked, target), {"n1": target})]
    held = planned(after, memory=plan.memory, now=NOW + 200, **ALL)
    assert targets(held) == {"a": target}
    assert targets(planned(after, memory=held.memory, now=NOW + 301, **ALL)) == {"a": 7}
    if target < 7:
        until = f"its user asked for {asked}, which is held until {stamp(-300)}"
        assert of(held, "a").reason == f"holds {target}: {until}"
        assert of(plan, "a").reason.endswith(until)


def test_10_how_long_a_manual_scale_is_held_can_be_chosen() -> None:
    objects = [node("n1", cpu=7), running(sized(2, 2), {"n1": 2})]
    plan = planned(objects, memory=Memory(starts={"uid-default-a": 4}), scale_hold=60.0, **ALL)
    assert targets(planned(objects, memory=plan.memory, now=NOW + 59, scale_hold=60.0, **ALL)) == {"a": 2}
    assert targets(planned(objects, memory=plan.memory, now=NOW + 61, scale_hold=60.0, **ALL)) == {"a": 7}


def test_10_a_held_size_still_makes_room_for_a_minimum_and_comes_back_after_it() -> None:
    seen = Memory(user_sizes={"uid-default-a": UserSize(4, NOW + 100)}, starts={"uid-default-a": 4})
    other = elastic_job("b", 2, 2)
    plan = planned(node("n1", cpu=4), running(sized(4, 4), {"n1": 4}), other, memory=seen, **ALL)
    assert targets(plan) == {"a": 2, "b": 0}
    later = planned(node("n1", cpu=6), running(sized(4, 2), {"n1": 2}), memory=plan.memory, now=NOW + 20, **ALL)
    assert targets(later) == {"a": 4}


def test_10_an_edited_minimum_is_no_manual_scale() -> None:
    job = elastic_job("a", 2, 8, status=scaled(100, 6))
    seen = Memory(starts={"uid-default-a": 4}, minima={"uid-default-a": 4})
    assert targets(planned(node("n1", cpu=6), running(job, {"n1": 6}), memory=seen, **ALL)) == {"a": 6}


@pytest.mark.case("acceptance-20")
def test_10_a_manual_scale_overrides_the_freezing_window() -> None:
    plan = planned(
        node("n1", cpu=8), running(sized(2, 4), {"n1": 4}), memory=Memory(starts={"uid-default-a": 4}), **ALL
    )
    assert targets(plan) == {"a": 2}
    assert of(plan, "a").reason.startswith("-2: its user asked for 2")
    assert of(plan, "a").code is Code.SCALED


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


def test_20_instances_that_were_just_granted_are_being_made() -> None:
    job = elastic_job("a", 2, 4, status=scaled(3, 4))
    decision = of(planned(node("n1", cpu=4), running(job, {"n1": 3}), **ALL), "a")
    assert decision.reason == "+1: 1 of its 4 instances is missing and is being made"


@pytest.mark.case("acceptance-20")
def test_20_a_gang_that_does_not_fit_names_the_resource_that_is_short() -> None:
    short_of_cpu = elastic_job("a", 5, 5, cpu=2, gpu=1)
    plan = planned(node("n1", cpu=8, gpu=8), short_of_cpu, available="requests", **ALL)
    assert of(plan, "a").reason == "waits: needs 5 workers of 2 CPU each, there is room for 4"
    short_of_gpus = elastic_job("a", 5, 5, cpu=1, gpu=1)
    plan = planned(node("n1", cpu=8, gpu=4), short_of_gpus, available="requests", **ALL)
    assert of(plan, "a").reason == "waits: needs 5 workers of 1 GPU each, there is room for 4"


@pytest.mark.case("acceptance-20")
def test_20_a_job_without_a_master_is_limited_by_that() -> None:
    decision = of(planned(node("n1", cpu=8), training_job("a", 2, 6, master=None), **ALL), "a")
    assert decision.reason.endswith("limited by its fixed size: it has no master (spec.master)")


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


@pytest.mark.case("acceptance-20")
def test_20_a_job_that_lost_pods_is_below_its_minimum_and_comes_first() -> None:
    hurt = elastic_job("hurt", 3, 3, status=scaled(900, 3) | {"phase": "Running"})
    rich = elastic_job("rich", 1, 20)
    plan = planned(node("n1", cpu=10), hurt, pods_of(hurt, {"n1": 1}), running(rich, {"n1": 9}), **ALL)
    assert targets(plan) == {"hurt": 3, "rich": 7}
    assert of(plan, "hurt").reason == "+2: 2 of its 3 instances are missing and are being replaced"


def raised(least: int, in_force: int | None, size: int, **more: Any) -> dict[str, Any]:
    """A job that runs, and whose minimum was edited since."""
    scale = {"target": size, "current": size, "lastScaleTime": stamp(900)}
    status = {"phase": "Running", "scale": scale | ({"minimum": in_force} if in_force is not None else {})}
    return elastic_job("a", least, 60, status=status, **more)


@pytest.mark.case("acceptance-7")
@pytest.mark.parametrize("in_force", [2, None])
def test_20_a_minimum_raised_beyond_the_cluster_waits_and_what_runs_goes_on(in_force: int | None) -> None:
    decision = of(planned(node("n1", cpu=16), running(raised(50, in_force, 4), {"n1": 4}), **ALL), "a")
    assert (decision.target, decision.placements) == (4, {})
    assert decision.minimum == (in_force or 4)
    assert decision.reason.startswith("holds 4: its new minimum of 50 waits: needs 46 CPU")


@pytest.mark.case("acceptance-7")
def test_20_a_raised_minimum_is_granted_as_a_gang_and_holds_once_it_was_reached() -> None:
    job = raised(10, 2, 4)
    decision = of(planned(node("n1", cpu=10), running(job, {"n1": 4}), **ALL), "a")
    assert (decision.target, decision.minimum) == (10, 2)
    assert of(planned(node("n1", cpu=10), running(raised(10, 2, 10), {"n1": 10}), **ALL), "a").minimum == 10


def test_20_what_a_raised_minimum_was_granted_is_not_taken_for_another() -> None:
    job, other = raised(10, 2, 10), elastic_job("other", 2, 2)
    plan = planned(node("n1", cpu=10), running(job, {"n1": 6}), pods_of(job, [""] * 4, first=6), other, **ALL)
    assert targets(plan) == {"a": 10, "other": 0}


def test_20_a_job_whose_raised_minimum_waits_gives_down_to_the_old_one() -> None:
    plan = planned(node("n1", cpu=8), running(raised(50, 2, 8), {"n1": 8}), elastic_job("b", 5, 5), **ALL)
    assert (of(plan, "a").target, of(plan, "a").minimum) == (3, 2)


def test_20_a_raised_minimum_reclaims_from_those_above_theirs() -> None:
    rich = elastic_job("rich", 1, 20)
    plan = planned(node("n1", cpu=10), running(raised(6, 2, 3), {"n1": 3}), running(rich, {"n1": 7}), **ALL)
    assert targets(plan) == {"a": 3, "rich": 4}
    assert of(plan, "a").reason == "holds 3: its new minimum of 6 waits: room is being made by default/rich"


def test_20_a_lowered_minimum_holds_at_once() -> None:
    plan = planned(node("n1", cpu=4), running(raised(1, 4, 4), {"n1": 4}), elastic_job("b", 2, 2), **ALL)
    assert (of(plan, "a").target, of(plan, "a").minimum) == (2, 1)


def test_20_pods_of_a_raised_minimum_that_cannot_be_placed_are_withdrawn() -> None:
    job = raised(10, 2, 10)
    plan = planned(node("n1", cpu=4), running(job, {"n1": 4}), pods_of(job, [""] * 6, first=4, refused=20), **ALL)
    assert (of(plan, "a").target, of(plan, "a").minimum) == (4, 2)


def test_10_a_pin_beyond_the_cluster_waits_and_what_runs_goes_on() -> None:
    job = raised(1, 1, 4, replicas=30, annotations={"edl.dev/pin": "true"})
    plan = planned(node("n1", cpu=8), running(job, {"n1": 4}), elastic_job("b", 6, 6), **ALL)
    assert targets(plan) == {"a": 4, "b": 0}


def refused(job: dict[str, Any], ago: float) -> dict[str, Any]:
    """The job, with the condition that tells of a refusal so long ago."""
    reported = {"type": "Refused", "status": "True", "reason": "Forbidden", "message": "Pod x: violates PodSecurity"}
    job["status"] = job.get("status", {}) | {"conditions": [reported | {"lastTransitionTime": stamp(ago)}]}
    return job


@pytest.mark.parametrize(("ago", "target"), [(2, 4), (6, 0)])
def test_26_a_grant_whose_pods_are_refused_is_given_back_within_seconds(ago: int, target: int) -> None:
    job = refused(elastic_job("a", 4, 4, status=scaled(ago, 4)), ago)
    rich = elastic_job("rich", 1, 12, status=scaled(900, 4))
    plan = planned(node("n1", cpu=12), job, running(rich, {"n1": 4}), **ALL)
    assert targets(plan) == {"a": target, "rich": 8 if target else 12}
    if not target:
        assert of(plan, "a").code is Code.REFUSED
        assert of(plan, "a").reason.endswith(
            "its pods are refused, which is tried again later: Pod x: violates PodSecurity"
        )


@pytest.mark.case("acceptance-24")
def test_26_refused_pods_are_tried_again_later_each_time_or_when_the_job_is_edited() -> None:
    job = refused(elastic_job("a", 4, 4, status=scaled(10, 4)), 10)
    first = planned(node("n1", cpu=12), job, **ALL)
    assert targets(first) == {"a": 0}
    waits = refused(elastic_job("a", 4, 4, status=scaled(0, 0)), 10)
    again = planned(node("n1", cpu=12), waits, memory=first.memory, now=NOW + 10, **ALL)
    assert (targets(again), of(again, "a").code) == ({"a": 0}, Code.REFUSED)
    assert targets(planned(node("n1", cpu=12), waits, memory=again.memory, now=NOW + 31, **ALL)) == {"a": 4}
    second = planned(node("n1", cpu=12), job, memory=again.memory, now=NOW + 50, **ALL)
    assert targets(second) == {"a": 0}
    assert targets(planned(node("n1", cpu=12), waits, memory=second.memory, now=NOW + 90, **ALL)) == {"a": 0}
    waits["metadata"]["generation"] = 7
    assert targets(planned(node("n1", cpu=12), waits, memory=second.memory, now=NOW + 90, **ALL)) == {"a": 4}


def test_26_growth_whose_pods_are_refused_is_given_back_and_the_rest_goes_on() -> None:
    job = refused(elastic_job("a", 2, 8, status=scaled(10, 8) | {"phase": "Running"}), 10)
    plan = planned(node("n1", cpu=12), running(job, {"n1": 3}), **ALL)
    assert targets(plan) == {"a": 3}
    held = refused(elastic_job("a", 2, 8, status=scaled(60, 3) | {"phase": "Running"}), 10)
    later = planned(node("n1", cpu=12), running(held, {"n1": 3}), memory=plan.memory, now=NOW + 5, **ALL)
    assert of(later, "a").reason.startswith("holds 3: its pods are refused")


def test_26_a_running_job_keeps_its_minimum_while_replacements_are_refused() -> None:
    job = refused(elastic_job("a", 4, 4, status=scaled(100, 4) | {"phase": "Running"}), 60)
    assert targets(planned(node("n1", cpu=12), running(job, {"n1": 3}), **ALL)) == {"a": 4}


def test_26_pods_that_a_controller_of_kubernetes_may_not_make_count_too() -> None:
    job = training_job("a", 2, 2, status={"scale_status": {"target": 2, "last_scale_time": stamp(30)}})
    failed = {"type": "ReplicaFailure", "status": "True", "message": "forbidden", "lastTransitionTime": stamp(20)}
    metadata = {"name": "a-master", "namespace": "default", "uid": "rs", "ownerReferences": [reference(job)]}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": 1}}
    plan = planned(node("n1", cpu=12), job, replica_set | {"status": {"conditions": [failed]}}, **ALL)
    assert targets(plan) == {"a": 0}
    assert of(plan, "a").reason.endswith("a-master: forbidden")


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
        elastic_job("small", 2, 2, age=1, annotations=priority("Experiment")),
    ]


def test_22_small_newcomers_may_overtake_a_gang_that_has_waited_less_than_five_minutes() -> None:
    assert targets(planned(waiting_gang(age=290), **ALL))["small"] == 2


@pytest.mark.case("acceptance-21")
def test_22_the_oldest_waiting_gang_keeps_what_it_needs_after_five_minutes() -> None:
    plan = planned(waiting_gang(age=310), **ALL)
    assert targets(plan)["small"] == 0
    assert of(plan, "small").reason == "waits: default/gang has waited longest and keeps what it needs"


@pytest.mark.case("acceptance-21")
def test_22_it_holds_back_no_higher_priority() -> None:
    """Sixteen workers on four nodes of four cores, one of which another job uses."""
    nodes = [node(f"n{number}", cpu=4) for number in range(4)]
    runs = elastic_job("runs", 1, 1, age=5000)
    gang = elastic_job("gang", 16, 16, cpu="900m", age=900, annotations=priority("Experiment"))
    important = elastic_job("important", 1, 1, age=1, annotations=priority("Production"))
    plan = planned(nodes, running(runs, {"n0": 1}), gang, important, **ALL)
    assert targets(plan) == {"runs": 1, "gang": 0, "important": 1}


def test_22_a_higher_priority_is_served_before_one_that_has_waited_long() -> None:
    gang = elastic_job("gang", 6, 6, age=900, annotations=priority("Experiment"))
    important = elastic_job("important", 6, 6, age=1, annotations=priority("Production"))
    same = elastic_job("same", 6, 6, age=1, annotations=priority("Experiment"))
    assert targets(planned(node("n1", cpu=8), gang, important, **ALL)) == {"gang": 0, "important": 6}
    assert targets(planned(node("n1", cpu=8), gang, same, **ALL)) == {"gang": 6, "same": 0}


@pytest.mark.case("acceptance-21")
def test_22_a_gang_that_lacks_gpus_holds_back_no_one_who_needs_none() -> None:
    objects = [
        node("g1", cpu=8, gpu=4),
        running(elastic_job("runs", 2, 2, gpu=1, age=5000), {"g1": 2}),
        elastic_job("gang", 3, 3, gpu=1, age=900),
        elastic_job("cpu", 5, 5, age=1),
        elastic_job("gpu", 1, 1, gpu=1, age=1),
    ]
    plan = planned(objects, **ALL)
    assert targets(plan) == {"runs": 2, "gang": 0, "cpu": 5, "gpu": 0}
    assert of(plan, "gpu").code is Code.OVERTAKEN


@pytest.mark.case("acceptance-21")
@pytest.mark.parametrize(("cpu", "target"), [("400m", 1), ("500m", 0)])
def test_22_who_fits_beside_what_it_keeps_goes_ahead(cpu: str, target: int) -> None:
    """The gang wants both nodes but 400m of each; half of one is taken."""
    nodes = [node("n1", cpu=4), node("n2", cpu=4)]
    gang = elastic_job("gang", 2, 2, cpu="3600m", age=900)
    runs = elastic_job("runs", 1, 1, cpu=2, age=5000)
    plan = planned(nodes, running(runs, {"n1": 1}), gang, elastic_job("small", 1, 1, cpu=cpu, age=1), **ALL)
    assert targets(plan) == {"runs": 1, "gang": 0, "small": target}


def test_22_it_leaves_nodes_that_it_does_not_need_to_others() -> None:
    """Every node is half taken; a gang of two whole nodes keeps two of the four."""
    nodes = [node(f"n{number}", cpu=4) for number in range(4)]
    runs = elastic_job("runs", 4, 4, cpu=2, age=5000)
    gang = elastic_job("gang", 2, 2, cpu=4, age=900)
    small = [elastic_job(f"small-{number}", 1, 1, cpu=2, age=1) for number in range(3)]
    plan = planned(nodes, running(runs, [f"n{number}" for number in range(4)]), gang, small, **ALL)
    assert targets(plan) == {"runs": 4, "gang": 0, "small-0": 1, "small-1": 1, "small-2": 0}


def test_22_nobody_reclaims_what_it_could_reclaim() -> None:
    rich = elastic_job("rich", 3, 8, age=5000)
    gang, small = elastic_job("gang", 6, 6, age=900), elastic_job("small", 1, 1, age=1)
    plan = planned(node("n1", cpu=8), running(rich, {"n1": 8}), gang, small, **ALL)
    assert targets(plan) == {"rich": 8, "gang": 0, "small": 0}
    assert of(plan, "small").reason == "waits: default/gang has waited longest and keeps what it needs"


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
