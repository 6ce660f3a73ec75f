"""Decision 23: pods of others come first, get room in one cycle, straight to the need, and only where room helps."""

from typing import Any

import pytest

from edl.scheduler.memory import Memory, Served
from edl.scheduler.plan import Plan
from edl.scheduler.reasons.codes import Code
from tests.scheduler.makers import NOW, Data, elastic_job, node, of, planned, pod, pods_of, running, targets

ALL: dict[str, Any] = {"max_load": "1"}


def outcome(plan: Plan, name: str = "web") -> tuple[bool, str]:
    (found,) = [one for one in plan.foreign if one.name == name]
    return found.placed, found.reason


def full(**more: Any) -> list[Any]:
    """One node of ten cores, full of the instances of one elastic job."""
    return [node("n1", cpu=10), running(elastic_job("a", 1, 20, **more), {"n1": 10})]


def test_a_pending_pod_gets_room_in_one_cycle_straight_to_the_need() -> None:
    plan = planned(full(), pod("web", cpu=3, refused=5), **ALL)
    assert targets(plan) == {"a": 7}
    assert of(plan, "a").reason == "-3: makes room for default/web (3 CPU)"
    assert of(plan, "a").leavers == {"worker": {"n1": 3}}
    assert outcome(plan) == (True, "room is made for it on n1")


def test_many_pending_pods_get_room_in_one_cycle() -> None:
    nodes = [node(f"n{number}", cpu=10) for number in range(4)]
    a, b = elastic_job("a", 1, 40), elastic_job("b", 1, 40)
    runs = [running(a, {"n0": 10, "n1": 10}), running(b, {"n2": 10, "n3": 10})]
    webs = [pod(f"web-{number}", cpu=3, refused=5) for number in range(8)]
    plan = planned(nodes, runs, webs, **ALL)
    assert all(one.placed for one in plan.foreign)
    assert sum(targets(plan).values()) == 40 - 24
    assert abs(targets(plan)["a"] - targets(plan)["b"]) <= 3


def test_the_next_cycle_takes_no_more_while_the_room_is_on_its_way() -> None:
    a = elastic_job("a", 1, 20)
    objects = [node("n1", cpu=10), running(a, {"n1": 7}), pods_of(a, {"n1": 3}, first=50, leaving=30)]
    plan = planned(objects, pod("web", cpu=3, refused=5), **ALL)
    assert targets(plan) == {"a": 7}
    assert outcome(plan) == (True, "fits when what leaves has left on n1")


def test_freed_room_is_the_pods_and_not_a_growing_jobs() -> None:
    a = elastic_job("a", 1, 20)
    plan = planned(node("n1", cpu=10), running(a, {"n1": 7}), pod("web", cpu=3, refused=5), **ALL)
    assert targets(plan) == {"a": 7}
    assert outcome(plan) == (True, "fits on n1")


def test_a_pod_that_is_not_refused_yet_has_its_room_kept_but_moves_nobody() -> None:
    free = planned(node("n1", cpu=10), running(elastic_job("a", 1, 20), {"n1": 5}), pod("web", cpu=3), **ALL)
    assert targets(free) == {"a": 7}
    plan = planned(full(), pod("web", cpu=3), **ALL)
    assert targets(plan) == {"a": 10}
    assert outcome(plan) == (False, "has no room yet; kube-scheduler has not judged it")


@pytest.mark.parametrize(
    "web",
    [
        pod("web", cpu=11, refused=5),
        pod("web", cpu=1, gpu=1, refused=5),
        pod("web", cpu=1, refused=5, spec={"nodeSelector": {"disk": "ssd"}}),
    ],
    ids=["too large", "no such GPU", "no such node"],
)
def test_a_pod_that_room_would_not_help_moves_nobody(web: Data) -> None:
    plan = planned(full(), web, **ALL)
    assert targets(plan) == {"a": 10}
    placed, reason = outcome(plan)
    assert not placed
    assert reason.startswith("no elastic job can make room for it: ")


def test_a_gated_pod_moves_nobody_and_keeps_nothing() -> None:
    gated = pod("web", cpu=3, refused=5, spec={"schedulingGates": [{"name": "wait"}]})
    plan = planned(node("n1", cpu=10), running(elastic_job("a", 1, 20), {"n1": 5}), gated, **ALL)
    assert targets(plan) == {"a": 10}
    assert plan.foreign == ()


def test_pods_on_their_way_out_or_done_are_not_served() -> None:
    plan = planned(full(), pod("web", cpu=3, refused=5, leaving=10), pod("old", cpu=3, phase="Failed"), **ALL)
    assert targets(plan) == {"a": 10}
    assert plan.foreign == ()


@pytest.mark.parametrize(("web", "job", "moved"), [(0, 0, True), (10, 0, True), (-5, 0, False), (0, 10, False)])
def test_a_pod_moves_only_pods_that_are_not_more_important(web: int, job: int, moved: bool) -> None:
    plan = planned(full(template={"priority": job}), pod("web", cpu=3, refused=5, spec={"priority": web}), **ALL)
    assert targets(plan) == {"a": 7 if moved else 10}


def test_lower_priority_gives_first() -> None:
    low = elastic_job("low", 1, 20, annotations={"edl.dev/priority": "Experiment"})
    high = elastic_job("high", 1, 20, annotations={"edl.dev/priority": "Production"})
    objects = [node("n1", cpu=10), running(high, {"n1": 7}), running(low, {"n1": 3})]
    assert targets(planned(objects, pod("web", cpu=2, refused=5), **ALL)) == {"high": 7, "low": 1}


def test_the_shorter_pause_gives_first() -> None:
    slow = elastic_job("slow", 1, 20, status={"scale": {"target": 6, "rescaleSeconds": 120.0}})
    quick = elastic_job("quick", 1, 20, status={"scale": {"target": 4, "rescaleSeconds": 2.0}})
    objects = [node("n1", cpu=10), running(slow, {"n1": 6}), running(quick, {"n1": 4})]
    assert targets(planned(objects, pod("web", cpu=2, refused=5), **ALL)) == {"slow": 6, "quick": 2}


def test_pods_that_do_not_run_yet_go_first() -> None:
    """a was granted 12; two of them have no node. They cost nothing."""
    a = elastic_job("a", 1, 20, status={"scale": {"target": 12}})
    objects = [node("n1", cpu=12), a, pods_of(a, {"n1": 10}), pods_of(a, ["", ""], first=50)]
    plan = planned(objects, pod("web", cpu=2, refused=5), **ALL)
    assert of(plan, "a").target == 10
    assert of(plan, "a").leavers == {"worker": {"": 2}}


def test_several_jobs_on_one_node_give_together_if_one_alone_cannot() -> None:
    a, b = elastic_job("a", 1, 20), elastic_job("b", 1, 20)
    objects = [node("n1", cpu=4), node("n2", cpu=4), running(a, {"n1": 2, "n2": 2}), running(b, {"n1": 2, "n2": 2})]
    plan = planned(objects, pod("web", cpu=4, refused=5), **ALL)
    assert outcome(plan)[0]
    assert targets(plan) == {"a": 2, "b": 2}


def test_no_more_is_taken_from_several_than_is_needed() -> None:
    """A large instance alone would do; the small ones that were tried first are left alone."""
    small = elastic_job("small", 1, 20, cpu=1, annotations={"edl.dev/priority": "999"})
    large = elastic_job("large", 1, 20, cpu=4, annotations={"edl.dev/priority": "999"})
    objects = [node("n1", cpu=10), running(small, {"n1": 2}), running(large, {"n1": 2})]
    plan = planned(objects, pod("web", cpu=4, refused=5), **ALL)
    assert targets(plan) == {"small": 2, "large": 1}


def test_nobody_goes_below_its_minimum_for_it() -> None:
    plan = planned(
        node("n1", cpu=10), running(elastic_job("a", 9, 20), {"n1": 10}), pod("web", cpu=2, refused=5), **ALL
    )
    assert targets(plan) == {"a": 10}
    assert not outcome(plan)[0]


def test_it_overrides_the_freezing_window() -> None:
    from tests.scheduler.makers import stamp

    plan = planned(full(status={"scale": {"target": 10, "lastScaleTime": stamp(1)}}), pod("web", refused=5), **ALL)
    assert targets(plan) == {"a": 9}


def test_a_gpu_job_gives_to_an_online_pod_that_needs_cpu_under_fulfillment_too() -> None:
    gpus = elastic_job("gpus", 1, 8, gpu=1)
    objects = [node("n1", cpu=4, gpu=8), running(gpus, {"n1": 4})]
    assert targets(planned(objects, pod("web", refused=5), policy="fulfillment", **ALL)) == {"gpus": 3}


# Room that does not help


def served(memory: Memory | None, seconds: float, *more: Any) -> Plan:
    """The pod is still pending, and there is room for it."""
    a = elastic_job("a", 1, 20)
    objects = [node("n1", cpu=10), running(a, {"n1": 7}), pod("web", cpu=3, refused=500)]
    return planned(objects, *more, now=NOW + seconds, memory=memory, **ALL)


def test_a_pod_that_is_not_bound_30_s_after_room_was_made_makes_its_owner_wait() -> None:
    first = planned(full(), pod("web", cpu=3, refused=5), **ALL)
    assert first.memory.served == {"uid-default-web": Served("uid-default-web", NOW)}
    soon = served(first.memory, 20)
    assert outcome(soon) == (True, "fits on n1")
    late = served(soon.memory, 31)
    assert outcome(late) == (False, "was not bound when it had room; room is made again in 60 s")
    assert targets(late) == {"a": 10}


def test_the_back_off_grows_and_ends() -> None:
    struck = served(Memory(served={"uid-default-web": Served("uid-default-web", NOW)}), 31)
    assert struck.memory.owners["uid-default-web"].until == NOW + 31 + 60
    again = served(struck.memory, 100)
    assert outcome(again)[0]
    room_again = planned(full(), pod("web", cpu=3, refused=500), now=NOW + 100, memory=struck.memory, **ALL)
    assert targets(room_again) == {"a": 7}
    second = served(room_again.memory, 140)
    assert second.memory.owners["uid-default-web"].until == NOW + 140 + 120


def test_all_pods_of_an_owner_wait_together() -> None:
    owner = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web", "uid": "rs", "controller": True}
    memory = Memory(served={"uid-default-web": Served("rs", NOW)})
    a = elastic_job("a", 1, 20)
    objects = [node("n1", cpu=10), running(a, {"n1": 7})]
    webs = [pod("web", cpu=3, refused=500, owner=owner), pod("web-2", cpu=3, refused=1, owner=owner)]
    plan = planned(objects, webs, now=NOW + 31, memory=memory, **ALL)
    assert not any(one.placed for one in plan.foreign)


def test_a_pod_that_was_bound_clears_its_owners_name() -> None:
    from edl.scheduler.memory import Backoff

    memory = Memory(
        served={"uid-default-web": Served("uid-default-web", NOW)},
        owners={"uid-default-web": Backoff(until=NOW - 1, strikes=3)},
    )
    plan = planned(node("n1", cpu=10), pod("web", "n1", cpu=3), memory=memory, **ALL)
    assert plan.memory.owners == {}
    assert plan.memory.served == {}


def test_pods_that_take_long_to_leave_are_not_the_waiting_pods_fault() -> None:
    """40 s later the room is still occupied by pods that have two minutes to go."""
    a = elastic_job("a", 1, 20)
    slow = pods_of(a, {"n1": 3}, first=50, leaving=90)
    memory = Memory(served={"uid-default-web": Served("uid-default-web", NOW)})
    objects = [node("n1", cpu=10), running(a, {"n1": 7}), slow, pod("web", cpu=3, refused=60)]
    plan = planned(objects, now=NOW + 40, memory=memory, **ALL)
    assert outcome(plan)[0]
    assert plan.memory.owners == {}


def test_a_pod_with_our_label_of_a_job_that_is_gone_is_nobodys_guest() -> None:
    stray = pod("stray", cpu=3, refused=5, labels={"edl.dev/job": "gone"})
    plan = planned(full(), stray, **ALL)
    assert targets(plan) == {"a": 10}
    assert plan.foreign == ()


def test_reasons_name_a_few_of_many_pods() -> None:
    webs = [pod(f"web-{number}", cpu=1, refused=5) for number in range(5)]
    plan = planned(full(), webs, **ALL)
    assert of(plan, "a").code is Code.MADE_ROOM
    named = "default/web-0 (1 CPU), default/web-1 (1 CPU), default/web-2 (1 CPU)"
    assert of(plan, "a").reason == f"-5: makes room for {named} and 2 more"
