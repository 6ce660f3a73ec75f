"""Timing of changes of size: decisions 24 to 27, each rule by its number, and moves that must pay."""

from typing import Any

import pytest

from edl.scheduler.memory import Memory, Promise
from edl.scheduler.plan import Plan
from tests.scheduler.makers import (
    ALL,
    NOW,
    child,
    elastic_job,
    node,
    of,
    planned,
    pod,
    pods_of,
    resources,
    running,
    scaled,
    stamp,
    targets,
    training_job,
)


@pytest.mark.parametrize(
    ("ago", "more", "frozen"),
    [
        (29, {}, True),
        (31, {}, False),
        (90, {"rescaleSeconds": 10.0}, True),
        (110, {"rescaleSeconds": 10.0}, False),
        (31, {"rescaleSeconds": 1.0}, False),
    ],
)
def test_24_the_window_is_30_s_or_ten_pauses(ago: float, more: dict[str, Any], frozen: bool) -> None:
    job = elastic_job("a", 1, 4, status=scaled(ago, 1, **more))
    decision = of(planned(node("n1", cpu=8), running(job, {"n1": 1}), **ALL), "a")
    assert decision.target == (1 if frozen else 4)
    assert ("frozen for another" in decision.reason) is frozen


@pytest.mark.parametrize(("window", "frozen"), [("5m", True), ("0s", False), ("10s", False)])
def test_24_a_window_that_is_set_counts_as_it_is(window: str, frozen: bool) -> None:
    job = elastic_job("a", 1, 4, status=scaled(15, 1), annotations={"edl.dev/freezing-window": window})
    assert targets(planned(node("n1", cpu=8), running(job, {"n1": 1}), **ALL)) == {"a": 1 if frozen else 4}


def test_24_a_frozen_job_is_not_shrunk_for_fairness_but_for_a_minimum() -> None:
    frozen = elastic_job("frozen", 1, 20, status=scaled(5, 9))
    objects = [node("n1", cpu=10), running(frozen, {"n1": 9}), running(elastic_job("b", 1, 20), {"n1": 1})]
    assert targets(planned(objects, **ALL)) == {"frozen": 9, "b": 1}
    assert targets(planned(objects, elastic_job("new", 2, 2), **ALL)) == {"frozen": 7, "b": 1, "new": 0}


def test_24_pause_is_never_overridden() -> None:
    paused = elastic_job("paused", 1, 4, annotations={"edl.dev/pause": "true"})
    objects = [node("n1", cpu=6), running(paused, {"n1": 6}), elastic_job("new", 1, 1), pod("web", cpu=1, refused=5)]
    plan = planned(objects, **ALL)
    assert targets(plan) == {"paused": 6, "new": 0}
    assert of(plan, "paused").reason == "holds 6: paused"
    assert not plan.foreign[0].placed


def test_24_a_paused_job_that_waits_goes_on_waiting() -> None:
    paused = elastic_job("paused", 1, 4, annotations={"edl.dev/pause": "true"})
    assert of(planned(node("n1"), paused, **ALL), "paused").reason == "waits: paused"


def test_25_the_load_cap_is_exact_in_millicores() -> None:
    """97 % of 100 cores are 97, to the millicore: 970 instances of a tenth, not 969."""
    plan = planned(node("n1", cpu=100, pods=2000), elastic_job("a", 1, 2000, cpu="100m", memory="1Mi"))
    assert targets(plan) == {"a": 970}
    assert of(plan, "a").reason == "+970: 100 of 100 CPU were free; limited by the load cap of 0.97 of the CPU"


def test_25_the_cap_does_not_bind_minima_and_never_shrinks() -> None:
    objects = [node("n1", cpu=10), running(elastic_job("full", 1, 20), {"n1": 9}), elastic_job("new", 1, 1)]
    plan = planned(objects, max_load="0.5")
    assert targets(plan) == {"full": 9, "new": 1}


def test_25_the_cap_is_about_cpu_not_about_gpus() -> None:
    plan = planned(node("n1", cpu=64, gpu=8), elastic_job("a", 1, 8, gpu=1))
    assert targets(plan) == {"a": 8}


def test_26_a_pod_refused_for_15_s_is_withdrawn_and_its_shape_backs_off() -> None:
    job = elastic_job("a", 1, 6, status=scaled(60, 4))
    objects = [node("n1", cpu=8), job, pods_of(job, {"n1": 2}), pods_of(job, ["", ""], first=9, refused=16)]
    plan = planned(objects, **ALL)
    decision = of(plan, "a")
    assert (decision.target, decision.leavers) == (2, {"worker": {"": 2}})
    assert decision.reason == "-2: 2 instances could not be placed for 15 s, tried again later"
    (backoff,) = plan.memory.shapes.values()
    assert backoff.until == NOW + 30

    bound = [node("n1", cpu=8), running(elastic_job("a", 1, 6), {"n1": 2})]
    held = planned(bound, now=NOW + 10, memory=plan.memory, **ALL)
    assert of(held, "a").reason == "holds 2: the cluster refused such a worker before; it is tried again in 20 s"
    assert targets(planned(bound, now=NOW + 31, memory=plan.memory, **ALL)) == {"a": 6}


def test_26_the_back_off_grows_each_time_and_is_forgiven() -> None:
    job = elastic_job("a", 1, 6, status=scaled(60, 2))

    def refused(now: float, memory: Memory | None) -> Plan:
        late = pods_of(job, [""], first=9)
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        late[0]["status"]["conditions"] = [condition | {"lastTransitionTime": stamp(NOW - now + 20)}]
        return planned(node("n1", cpu=8), job, pods_of(job, {"n1": 1}), late, now=now, memory=memory, **ALL)

    first = refused(NOW, None)
    again = refused(NOW + 50, first.memory)
    (backoff,) = again.memory.shapes.values()
    assert (backoff.strikes, backoff.until) == (2, NOW + 50 + 60)
    much_later = refused(NOW + 5000, again.memory)
    (backoff,) = much_later.memory.shapes.values()
    assert backoff.strikes == 1


def test_26_a_pod_refused_for_less_is_given_its_time() -> None:
    job = elastic_job("a", 1, 3, status=scaled(60, 3))
    objects = [node("n1", cpu=8), job, pods_of(job, {"n1": 2}), pods_of(job, [""], first=9, refused=10)]
    assert targets(planned(objects, **ALL)) == {"a": 3}


def test_26_a_gang_that_never_ran_is_withdrawn_whole() -> None:
    job = elastic_job("a", 3, 3, status=scaled(60, 3))
    objects = [node("n1", cpu=8), job, pods_of(job, {"n1": 2}), pods_of(job, [""], first=9, refused=20)]
    decision = of(planned(objects, **ALL), "a")
    assert (decision.target, decision.leavers) == (0, {"worker": {"": 1, "n1": 2}})


def test_26_a_gang_that_goes_whole_is_not_given_the_same_again_at_once() -> None:
    """What it holds itself is room as soon as it goes; without a back-off it would never go."""
    job = elastic_job("a", 2, 2, status=scaled(60, 2))
    leaving = pod("web", "n2", cpu=1, leaving=20)
    objects = [node("n1", cpu=1), node("n2", cpu=1), leaving, job, pods_of(job, {"n1": 1})]
    plan = planned(objects, pods_of(job, [""], first=9, refused=20), **ALL)
    assert targets(plan) == {"a": 0}
    assert len(plan.memory.shapes) == 1


def test_26_a_job_that_has_run_keeps_what_it_has_and_waits_for_the_rest() -> None:
    job = elastic_job("a", 3, 3, status=scaled(60, 3) | {"phase": "Running"})
    objects = [node("n1", cpu=2), job, pods_of(job, {"n1": 2}), pods_of(job, [""], first=9, refused=20)]
    decision = of(planned(objects, **ALL), "a")
    assert (decision.target, decision.leavers) == (3, {})
    assert decision.reason.startswith("below its minimum: ")


@pytest.mark.parametrize("how", ["terminating", "nominated", "bound"])
def test_26_what_is_terminating_nominated_or_bound_is_occupied(how: str) -> None:
    other = pod("other", "" if how == "nominated" else "n1", cpu=3, **({"leaving": 20} if how == "terminating" else {}))
    if how == "nominated":
        other["status"]["nominatedNodeName"] = "n1"
    assert targets(planned(node("n1", cpu=4), other, elastic_job("a", 1, 9), **ALL)) == {"a": 1}


def test_26_pods_that_are_granted_and_not_there_yet_are_not_given_away() -> None:
    """a was granted 4 and has 1; b cannot have what a is about to take."""
    a, b = elastic_job("a", 1, 4, status=scaled(1, 4)), elastic_job("b", 1, 9)
    plan = planned(node("n1", cpu=6), a, pods_of(a, {"n1": 1}), running(b, {"n1": 1}), **ALL)
    assert targets(plan) == {"a": 4, "b": 2}
    assert of(plan, "a").placements == {"worker": {"n1": 3}}


def test_26_an_unbound_pod_is_expected_where_its_plan_wanted_it() -> None:
    a = elastic_job("a", 2, 2, status=scaled(1, 2))
    waits = pods_of(a, [""])[0]
    here = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    waits["spec"]["affinity"] = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": {"matchFields": [here]}}]
        }
    }
    bound, nodes = pods_of(a, ["n1"], first=1), [node("n1", cpu=2), node("n2", cpu=2)]
    plan = planned(nodes, a, waits, bound, elastic_job("b", 1, 4), **ALL)
    assert of(plan, "b").placements == {"worker": {"n1": 1, "n2": 1}}


def test_26_what_can_no_longer_be_placed_is_no_target() -> None:
    """A node is gone, with it the room of two instances."""
    a = elastic_job("a", 1, 8, status=scaled(300, 6))
    plan = planned(node("n1", cpu=4), a, pods_of(a, {"n1": 4}), pods_of(a, ["", ""], first=9), **ALL)
    assert targets(plan) == {"a": 4}
    assert of(plan, "a").reason == "-2: no node has room for 2 instances that it was granted"


@pytest.mark.parametrize(("free", "target"), [(1, 1), (3, 2), (7, 4), (8, 8), (20, 8)])
def test_27_only_allowed_sizes_are_granted(free: int, target: int) -> None:
    job = elastic_job("a", 1, 10, annotations={"edl.dev/sizes": "1,2,4,8"})
    assert targets(planned(node("n1", cpu=free), job, **ALL)) == {"a": target}


def test_27_shrinking_goes_to_an_allowed_size_too() -> None:
    job = elastic_job("a", 1, 10, annotations={"edl.dev/sizes": "1,2,4,8"})
    plan = planned(node("n1", cpu=8), running(job, {"n1": 8}), elastic_job("new", 1, 1), **ALL)
    assert targets(plan) == {"a": 4, "new": 0}


def test_27_a_size_that_is_not_allowed_any_more_is_left_for_the_next_lower_one() -> None:
    job = elastic_job("a", 1, 10, annotations={"edl.dev/sizes": "1,2,4,8"})
    decision = of(planned(node("n1", cpu=7), running(job, {"n1": 7}), **ALL), "a")
    assert (decision.target, decision.reason) == (4, "-3: 4 is the nearest size that it may have")


def test_growth_that_does_not_win_back_its_pause_is_left_alone() -> None:
    """20 instances that stop for 60 s lose 1200 instance-seconds: 2 more win them back in ten minutes at best."""
    job = elastic_job("a", 1, 40, status={"scale": {"target": 20, "rescaleSeconds": 60.0}})
    one_free = planned(node("n1", cpu=22), running(job, {"n1": 20}), **ALL)
    assert targets(one_free) == {"a": 20}
    assert of(one_free, "a").reason == "holds 20: fewer than 3 more would not win back its pause of 60 s in time"
    assert targets(planned(node("n1", cpu=23), running(job, {"n1": 20}), **ALL)) == {"a": 23}


def test_fairness_does_not_move_what_costs_more_than_it_brings() -> None:
    slow = elastic_job("slow", 1, 40, status={"scale": {"target": 12, "rescaleSeconds": 300.0}})
    quick = elastic_job("quick", 1, 40)
    objects = [node("n1", cpu=20), running(slow, {"n1": 12}), running(quick, {"n1": 8})]
    assert targets(planned(objects, **ALL)) == {"slow": 12, "quick": 8}
    cheap = elastic_job("slow", 1, 40, status={"scale": {"target": 12, "rescaleSeconds": 1.0}})
    assert targets(planned(objects[0], running(cheap, {"n1": 12}), objects[2], **ALL)) == {"slow": 10, "quick": 8}


def test_freed_room_goes_to_whom_it_was_promised() -> None:
    """c would be served first by its score, but the room was made for b."""
    a, b, c = (elastic_job(name, 1, 9) for name in "abc")
    objects = [node("n1", cpu=12), running(a, {"n1": 4}), running(b, {"n1": 1}), running(c, {"n1": 4}, age=1)]
    promised = Memory(promises={"uid-default-b": Promise(size=4, made=NOW - 5)})
    assert targets(planned(objects, memory=promised, **ALL)) == {"a": 4, "b": 4, "c": 4}


def test_a_promise_waits_for_its_room_to_come_together_but_not_for_ever() -> None:
    a, b = elastic_job("a", 1, 9), elastic_job("b", 1, 9)
    leaving = pods_of(a, {"n1": 2}, first=50, leaving=20)
    objects = [node("n1", cpu=8), running(a, {"n1": 4}), leaving, running(b, {"n1": 1})]
    young = Memory(promises={"uid-default-b": Promise(size=4, made=NOW - 5)})
    held = planned(objects, memory=young, **ALL)
    assert targets(held) == {"a": 4, "b": 1}
    assert of(held, "b").reason == "holds 1: room is being made for 3 more"
    old = Memory(promises={"uid-default-b": Promise(size=4, made=NOW - 40)})
    assert targets(planned(objects, memory=old, **ALL)) == {"a": 4, "b": 2}


def test_current_is_the_size_of_the_child_job_if_listed_else_the_live_pods() -> None:
    job = training_job("a", 1, 9)
    live = [node("n1", cpu=64), running(job, {"n1": 3})]
    assert of(planned(live), "a").current == 3
    assert of(planned(live, child(job, 5)), "a").current == 5


def test_finished_instances_are_part_of_the_size_and_nobody_grows_a_job_that_ends() -> None:
    job = training_job("a", 1, 9, status={"phase": "running", "scale_status": {"target": 4}})
    done = pods_of(job, {"n1": 2}, first=20, phase="Succeeded")
    decision = of(planned(node("n1", cpu=64), running(job, {"n1": 2}), done, child(job, 4)), "a")
    assert (decision.target, decision.placements) == (4, {})
    assert decision.reason == "holds 4: some of its instances are done already"


def test_parameter_servers_scale_with_the_trainers() -> None:
    """2 servers at 2 trainers, 5 at 8: in proportion, and both must fit."""
    servers = {"min-instance": 2, "max-instance": 5, "resources": resources(2)}
    job = training_job("a", 2, 8, pserver=servers)
    assert of(planned(node("n1", cpu=64), job), "a").roles == {"master": 1, "pserver": 5, "trainer": 8}
    tight = of(planned(node("n1", cpu="11100m"), job, **ALL), "a")
    assert tight.roles == {"master": 1, "pserver": 3, "trainer": 4}


@pytest.mark.parametrize("role", ["trainer", "pserver"])
def test_26_the_next_plan_is_due_when_a_refused_pod_is_to_be_withdrawn(role: str) -> None:
    servers = {"min-instance": 1, "max-instance": 4, "resources": resources(1)}
    job = training_job("a", 1, 4, pserver=servers, status={"scale_status": {"target": 2}})
    waiting = pods_of(job, [""], role, first=1, refused=9)
    plan = planned(node("n1", cpu=3), running(job, {"n1": 1}), pods_of(job, ["n1"], "pserver"), waiting, **ALL)
    assert plan.requeue_at == NOW + 6
