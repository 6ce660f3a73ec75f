"""resource_updation, and resources of a role that change: make before break, or in place where that suffices."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.jobs.easydl.world import EasydlWorld, role
from tests.jobs.world import CrashError, Data

PLAN: dict[str, Any] = {"parameter_server": role(2, cpu=4, memory=4096), "worker": role(1, cpu=1)}


def entry(name: str, **resource: Any) -> Data:
    return {"name": name, "resource": resource}


def running(**settings: Any) -> EasydlWorld:
    world = EasydlWorld()
    world.settings = replace(world.settings, **settings)
    world.planned(1, **PLAN)
    return world


def test_the_sample_of_design_003_replaces_two_servers_one_after_the_other() -> None:
    world = running()
    updates = [entry("j-ps-0", cpu=8, memory=8192), entry("j-ps-1", cpu=16)]
    world.plan(**PLAN, resource_updation=updates)
    world.settle()
    assert world.pods("ps") == ["j-ps-0", "j-ps-0-1", "j-ps-1"]
    assert world.updates() == {"j-ps-0": "replacing", "j-ps-1": "pending"}
    assert world.why("j-ps-1") == "waits until j-ps-0 has moved"
    assert world.leads_to("j-ps-0") == "j-ps-0"
    world.live()
    assert world.pods("ps") == ["j-ps-0-1", "j-ps-1-1"]
    assert world.updates() == {"j-ps-0": "done", "j-ps-1": "done"}
    assert (world.leads_to("j-ps-0"), world.leads_to("j-ps-1")) == ("j-ps-0-1", "j-ps-1-1")
    assert world.resources("j-ps-0-1") == {"cpu": "8", "memory": "8Gi"}
    assert world.resources("j-ps-1-1") == {"cpu": "16", "memory": "4Gi"}  # what is not named is kept


def test_the_address_moves_before_the_old_one_is_asked_to_go() -> None:
    world = running()
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=8)])
    world.settle()
    world.run("j-ps-0-1")
    world.writes.clear()
    world.settle()
    moved, gone = world.writes.index("Change Service/j-ps-0"), world.writes.index("Delete Pod/j-ps-0")
    assert moved < gone


def test_an_entry_that_is_applied_stays_done_and_a_plan_without_it_goes_back() -> None:
    world = running()
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=8)])
    world.live()
    before = len(world.writes)
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=8)])
    world.live()
    made = [write for write in world.writes[before:] if "Pod" in write]
    assert (made, world.updates()) == ([], {"j-ps-0": "done"})
    world.plan(**PLAN)
    world.live()
    assert world.pods("ps") == ["j-ps-0-2", "j-ps-1"]
    assert world.updates() == {}


def test_a_slot_that_does_not_run_yet_is_made_with_its_own_resources() -> None:
    world = EasydlWorld()
    world.planned(1, **PLAN, resource_updation=[entry("j-ps-1", cpu=8), entry("j-worker-5", cpu=2)])
    assert world.pods("ps") == ["j-ps-0", "j-ps-1"]
    assert world.updates() == {"j-ps-1": "done", "j-worker-5": "refused"}
    assert world.why("j-worker-5") == "there is no such slot: the plan gives worker 1 of them"


@pytest.mark.parametrize(
    ("name", "state", "why"),
    [
        ("j-ps-7", "refused", "there is no such slot: the plan gives ps 2 of them"),
        ("j-master-0", "refused", "no slot has this name: those of a job are j-ps-N, j-worker-N and j-evaluator-N"),
        ("j-ps-0-1", "refused", "no slot has this name: those of a job are j-ps-N, j-worker-N and j-evaluator-N"),
        ("j-trainer", "refused", "no slot has this name: those of a job are j-ps-N, j-worker-N and j-evaluator-N"),
        ("j-worker-2", "pending", "the scheduler has granted 1 of 3"),
    ],
)
def test_entries_without_a_pod(name: str, state: str, why: str) -> None:
    world = EasydlWorld()
    plan = PLAN | {"worker": role(3, cpu=1)}
    world.planned(1, **plan, resource_updation=[entry(name, cpu=8)])
    assert world.updates() == {name: state}
    assert world.why(name) == why
    assert world.pods("ps") == ["j-ps-0", "j-ps-1"]


def test_a_pod_that_cannot_be_placed_leaves_the_old_one_where_it_is() -> None:
    world = running()
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=64)])
    world.settle()
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    pod = world.objects["Pod", "j-ps-0-1"]
    pod["status"] = {"phase": "Pending", "conditions": [unschedulable]}
    world._store(("Pod", "j-ps-0-1"), pod)
    world.settle()
    assert (world.updates(), world.why("j-ps-0")) == ({"j-ps-0": "replacing"}, "Unschedulable: 0/2 nodes")
    assert world.leads_to("j-ps-0") == "j-ps-0"
    world.plan(**PLAN)
    world.live()
    assert (world.pods("ps"), world.updates()) == (["j-ps-0", "j-ps-1"], {})


def unschedulable(world: EasydlWorld, name: str, message: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = world.objects["Pod", name]
    pod["status"] = {"phase": "Pending", "conditions": [condition]}
    world._store(("Pod", name), pod)


@pytest.mark.case("acceptance-2")
@pytest.mark.parametrize("resizes", [False, True])
def test_an_update_that_no_node_can_take_is_refused_and_the_next_goes_on(resizes: bool) -> None:
    world = running(resizes=resizes)
    for pod in world.pods("ps"):
        gives(world, pod, cpu="4", memory="4Gi")
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=1000), entry("j-ps-1", cpu=5)])
    world.settle()
    if resizes:
        old = world.objects["Pod", "j-ps-0"]
        infeasible = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "node has 6"}
        old["status"]["conditions"].append(infeasible)
        world._store(("Pod", "j-ps-0"), old)
        world.settle()
    unschedulable(world, "j-ps-0-1", "0/2 nodes are available: 2 Insufficient cpu.")
    world.settle()
    assert world.updates()["j-ps-0"] == "replacing"
    assert world.why("j-ps-0").startswith("Unschedulable: 0/2 nodes")
    due = world.reconcile().requeue_at
    assert due is not None
    assert due <= world.now + 60
    world.now += 60
    world.settle()
    why = "no node can take its new pod j-ps-0-1: 0/2 nodes are available: 2 Insufficient cpu."
    assert (world.updates()["j-ps-0"], world.why("j-ps-0")) == ("refused", why)
    if resizes:
        gives(world, "j-ps-1", cpu="5", memory="4Gi")
    world.live()
    assert world.updates() == {"j-ps-0": "refused", "j-ps-1": "resized" if resizes else "done"}
    assert world.pods("ps")[0] == "j-ps-0", "the old one goes on"
    assert not world.step(), "and nothing is tried again"
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=6)])
    world.settle()
    assert world.updates()["j-ps-0"] != "refused", "until something else is asked for"


def test_a_second_update_while_one_runs_takes_its_place() -> None:
    world = running()
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=8)])
    world.settle()
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=6)])
    world.live()
    assert world.pods("ps") == ["j-ps-0-2", "j-ps-1"]
    assert world.resources("j-ps-0-2")["cpu"] == "6"


def test_a_new_pod_that_fails_is_refused_and_not_tried_again() -> None:
    world = running()
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=8)])
    world.settle()
    world.end("j-ps-0-1", 1)
    world.live()
    assert (world.pods("ps"), world.updates()) == (["j-ps-0", "j-ps-1"], {"j-ps-0": "refused"})
    assert world.why("j-ps-0") == "its new pod j-ps-0-1 failed: exit code 1"
    assert world.status["phase"] == "Running"
    world.now += 3600
    world.live()
    assert world.pods("ps") == ["j-ps-0", "j-ps-1"]
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=9)])
    world.live()
    assert (world.pods("ps"), world.updates()) == (["j-ps-0-2", "j-ps-1"], {"j-ps-0": "done"})


def test_what_was_refused_is_done_once_the_old_pod_is_lost_anyway() -> None:
    world = running()
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=8)])
    world.settle()
    world.end("j-ps-0-1", 1)
    world.live()
    assert world.updates() == {"j-ps-0": "refused"}
    world.lose("j-ps-0")
    world.live()
    assert (world.pods("ps"), world.updates()) == (["j-ps-0-2", "j-ps-1"], {"j-ps-0": "done"})
    assert world.resources("j-ps-0-2")["cpu"] == "8"


def test_resources_of_a_role_that_change_roll_through_it() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2, cpu=1))
    world.plan(parameter_server=role(1), worker=role(2, cpu=2))
    fewest = 2
    for _ in range(12):
        world.settle()
        fewest = min(
            fewest,
            sum(world.objects["Pod", one].get("status", {}).get("phase") == "Running" for one in world.pods("worker")),
        )
        world.run_all()
    assert fewest == 2
    assert sorted(world.pods("worker")) == ["j-worker-0-1", "j-worker-1-1"]
    assert world.resources("j-worker-1-1") == {"cpu": "2"}
    assert world.updates() == {}


def test_a_worker_that_ran_out_of_memory_waits_for_a_better_plan() -> None:
    world = EasydlWorld()
    world.planned(1, parameter_server=role(1), worker=role(1, memory=64))
    world.end("j-worker-0", 137, reason="OOMKilled")
    world.live()
    assert world.pods("worker") == []
    assert world.reconcile().requeue_at is not None
    world.plan(parameter_server=role(1), worker=role(1, memory=128))
    world.live()
    assert world.resources("j-worker-0-1") == {"memory": "128Mi"}


def test_without_a_better_plan_it_is_tried_again_all_the_same() -> None:
    world = EasydlWorld()
    world.planned(1, parameter_server=role(1), worker=role(1, memory=64))
    world.end("j-worker-0", 137, reason="OOMKilled")
    world.live()
    world.now += 11
    world.live()
    assert world.pods("worker") == ["j-worker-0-1"]


# In place.


def gives(world: EasydlWorld, name: str, **resources: str) -> None:
    """As kubelet tells what it has given to a container."""
    pod = world.objects["Pod", name]
    pod["status"]["containerStatuses"][0]["resources"] = {"requests": resources, "limits": resources}
    world._store(("Pod", name), pod)


def resizing(**resource: Any) -> EasydlWorld:
    world = running(resizes=True)
    for pod in world.pods("ps"):
        gives(world, pod, cpu="4", memory="4Gi")
    world.plan(**PLAN, resource_updation=[entry("j-ps-0", **resource)])
    world.settle()
    return world


def test_a_pod_is_resized_in_place_where_that_suffices() -> None:
    world = resizing(cpu=8)
    assert world.resources("j-ps-0") == {"cpu": "8", "memory": "4Gi"}
    assert (world.updates(), world.why("j-ps-0")) == (
        {"j-ps-0": "pending"},
        "its node is asked to resize it in place",
    )
    gives(world, "j-ps-0", cpu="8", memory="4Gi")
    world.live()
    assert (world.pods("ps"), world.updates()) == (["j-ps-0", "j-ps-1"], {"j-ps-0": "resized"})


def test_a_node_that_rounds_what_was_requested_has_resized_it_all_the_same() -> None:
    world = resizing(cpu=8)
    pod = world.objects["Pod", "j-ps-0"]
    given = {"requests": {"cpu": "7990m", "memory": "4Gi"}, "limits": {"cpu": "8", "memory": "4Gi"}}
    pod["status"]["containerStatuses"][0]["resources"] = given
    world._store(("Pod", "j-ps-0"), pod)
    world.live()
    assert world.updates() == {"j-ps-0": "resized"}


def test_and_back_again() -> None:
    world = resizing(cpu=8)
    gives(world, "j-ps-0", cpu="8", memory="4Gi")
    world.live()
    world.plan(**PLAN)
    world.settle()
    gives(world, "j-ps-0", cpu="4", memory="4Gi")
    world.live()
    assert world.pods("ps") == ["j-ps-0", "j-ps-1"]
    assert world.resources("j-ps-0") == {"cpu": "4", "memory": "4Gi"}
    assert world.updates() == {}


@pytest.mark.parametrize(
    ("resource", "condition"),
    [
        ({"disk": 8192}, None),
        ({"gpu": 1, "cpu": 1}, None),
        ({"cpu": 8}, {"reason": "Infeasible", "message": "node has 6"}),
    ],
)
def test_where_it_does_not_suffice_a_new_pod_is_made(resource: Data, condition: Data | None) -> None:
    world = resizing(**resource)
    if condition is not None:
        pod = world.objects["Pod", "j-ps-0"]
        pod["status"]["conditions"].append({"type": "PodResizePending", "status": "True"} | condition)
        world._store(("Pod", "j-ps-0"), pod)
    world.live()
    assert (world.pods("ps"), world.updates()) == (["j-ps-0-1", "j-ps-1"], {"j-ps-0": "done"})


def test_a_resize_that_waits_too_long_is_given_up_for_a_new_pod() -> None:
    world = resizing(cpu=8)
    pod = world.objects["Pod", "j-ps-0"]
    waits = {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Deferred",
        "lastTransitionTime": "2001-09-09T01:46:40Z",
    }
    pod["status"]["conditions"].append(waits)
    world._store(("Pod", "j-ps-0"), pod)
    world.settle()
    assert world.why("j-ps-0") == "its node waits with it: Deferred"
    world.now += 31
    world.live()
    assert world.updates() == {"j-ps-0": "done"}
    assert world.pods("ps") == ["j-ps-0-1", "j-ps-1"]


def test_a_crash_between_any_two_writes_of_an_update_changes_nothing() -> None:
    def story(crash_after: int | None) -> tuple[EasydlWorld, bool]:
        world = running()
        world.writes.clear()
        world.crash_after = crash_after
        world.plan(**PLAN, resource_updation=[entry("j-ps-0", cpu=8), entry("j-ps-1", cpu=16)])
        crashed = False
        for _ in range(12):
            try:
                world.live()
            except CrashError:
                crashed, world.crash_after = True, None
        return world, crashed

    whole, _ = story(None)
    for writes in range(1, len(whole.writes) + 1):
        world, crashed = story(writes)
        assert crashed
        assert world.pods("ps") == whole.pods("ps"), writes
        assert world.updates() == whole.updates(), writes
        assert world.names("Service") == whole.names("Service"), writes
