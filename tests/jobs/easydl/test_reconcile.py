"""An EasyDL job: the trainer first, the others by its JobResource, again and again."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from edl.jobs.core.grant import Grant
from edl.jobs.core.pods.environment import ServiceAccess
from edl.jobs.core.pods.pod_builder import PodSettings
from tests.jobs.easydl.world import ROLES, EasydlWorld, easydl, role, template
from tests.jobs.world import Data


def test_at_submission_there_is_the_trainer_and_nothing_else() -> None:
    world = EasydlWorld()
    world.live()
    assert world.names("Pod") == ["j-trainer"]
    assert world.names("Service") == ["j-trainer"]
    assert world.status["phase"] == "Running"
    assert world.status["reason"] == "the trainer runs; no JobResource names the job yet"
    assert world.objects["Pod", "j-trainer"]["spec"]["containers"][0]["command"] == ["edl", "trainer"]


def test_a_plan_that_is_there_before_the_job_waits_for_the_trainer() -> None:
    world = EasydlWorld()
    world.grant = None
    world.plan(parameter_server=role(1), worker=role(1))
    world.now += 5
    world.settle()
    assert world.names("Pod") == []
    assert world.reported()["reason"] == "waits until the job's trainer has its place"
    world.grant = Grant(1, roles={"trainer": 1})
    world.live()
    assert world.names("Pod") == ["j-trainer"]
    world.give(1)
    world.live()
    assert world.names("Pod") == ["j-ps-0", "j-trainer", "j-worker-0"]


def test_pods_come_by_the_plan_with_its_resources_and_the_template_annotations() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(2, cpu=4, memory=4096), worker=role(3, cpu=1), evaluator=role(1))
    assert world.names("Pod") == ["j-evaluator-0", "j-ps-0", "j-ps-1", "j-trainer", "j-worker-0", "j-worker-1"]
    assert world.names("Service") == world.names("Pod")
    assert world.resources("j-ps-1") == {"cpu": "4", "memory": "4Gi"}
    pod = world.objects["Pod", "j-worker-0"]
    assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    assert world.objects["Pod", "j-evaluator-0"]["spec"]["containers"][0]["command"] == ["worker"]
    assert world.reported()["granted"] == {"ps": 2, "worker": 2, "evaluator": 1}
    assert world.reported()["reason"] == "there is room"
    assert world.status["phase"] == "Running"
    assert world.status["replicaStatuses"]["ps"] == {"desired": 2, "active": 2}


def test_a_plan_is_followed_again_and_again() -> None:
    world = EasydlWorld()
    world.planned(1, parameter_server=role(1), worker=role(1))
    for servers, workers, evaluators in ((2, 4, 1), (1, 2, 1), (3, 1, 0), (0, 2, 2), (2, 3, 0)):
        world.plan(parameter_server=role(servers), worker=role(workers), evaluator=role(evaluators))
        world.give(workers)
        world.live()
        found = {name: len(world.pods(name)) for name in ("ps", "worker", "evaluator")}
        assert found == {"ps": servers, "worker": workers, "evaluator": evaluators}
        assert len(world.names("Service")) == 1 + servers + workers + evaluators
    assert [world.leads_to(f"j-ps-{index}") for index in (0, 1)] == sorted(world.pods("ps"))


def test_workers_go_to_none_and_come_back() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2))
    world.plan(parameter_server=role(1), worker=role(0))
    world.grant = Grant(1, roles={"trainer": 1, "ps": 1})
    world.live()
    assert (world.pods("worker"), world.pods("ps"), world.pods("trainer")) == ([], ["j-ps-0"], ["j-trainer"])
    world.plan(parameter_server=role(1), worker=role(1))
    world.give(1)
    world.live()
    assert len(world.pods("worker")) == 1


def test_a_role_that_is_not_named_is_left_alone() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(2, cpu=2), worker=role(2))
    world.plan(worker=role(3))
    world.give(3)
    world.live()
    assert sorted(world.pods("ps")) == ["j-ps-0", "j-ps-1"]
    world.lose("j-ps-0")
    world.live()
    assert world.resources("j-ps-0-1") == {"cpu": "2"}


def test_a_plan_deleted_midway_leaves_everything_as_it_is() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(2, cpu=2), worker=role(2, cpu=1))
    before = world.names("Pod")
    del world.objects["JobResource", "r"]
    world.live()
    assert world.names("Pod") == before
    world.lose("j-worker-1")
    world.live()
    assert world.resources("j-worker-1-1") == {"cpu": "1"}
    world.plan("other", parameter_server=role(1, cpu=2), worker=role(2, cpu=1))
    world.live()
    assert world.pods("ps") == ["j-ps-0"]


def test_the_older_plan_rules_and_the_other_is_told_so() -> None:
    world = EasydlWorld()
    world.plan("b", parameter_server=role(1), worker=role(1))
    world.now += 1
    world.plan("a", parameter_server=role(3), worker=role(3))
    world.live()
    world.give(1)
    world.live()
    assert world.pods("ps") == ["j-ps-0"]
    assert world.reported("a")["reason"] == (
        "refused: JobResource b is older and rules the job; edit that one, or delete it"
    )
    del world.objects["JobResource", "b"]
    world.give(3)
    world.live()
    assert len(world.pods("ps")) == 3
    assert world.reported("a")["granted"] == {"ps": 3, "worker": 3}


def test_a_plan_that_finds_no_room_waits_and_the_trainer_keeps_its_place() -> None:
    world = EasydlWorld()
    world.planned(0, parameter_server=role(9, cpu=64), worker=role(1))
    assert world.names("Pod") == ["j-trainer"]
    assert world.condition("Queued")["message"] == "no room"  # type: ignore[index]  # it is there
    assert (world.reported()["granted"], world.reported()["reason"]) == ({"ps": 0, "worker": 0}, "no room")
    world.end("j-trainer", 1)
    world.live()
    assert world.pods("trainer") == ["j-trainer-1"]


def test_a_grant_to_the_trainer_alone_is_none_to_workers() -> None:
    world = EasydlWorld()
    world.live()
    world.plan(parameter_server=role(1), worker=role(2))
    world.live()
    assert world.names("Pod") == ["j-trainer"]
    assert world.reported()["reason"] == "the scheduler has not looked at it yet"


def test_a_finished_worker_is_not_replaced() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2))
    world.end("j-worker-0", 0)
    world.live()
    assert world.pods("worker") == ["j-worker-1"]
    assert world.status["replicaStatuses"]["worker"] == {"desired": 2, "active": 1, "succeeded": 1}


@pytest.mark.parametrize(
    ("failing", "code"), [("ps", "ParameterServerFailed"), ("worker", "WorkersFailed"), ("trainer", "TrainerFailed")]
)
def test_past_its_restarts_a_slot_is_given_up_and_fails_the_job(failing: str, code: str) -> None:
    role_of = {"ps": "parameterServer"}.get(failing, failing)
    spec = {role_of: {"template": template(), "restartCount": 2}}
    world = EasydlWorld(easydl(**spec))
    world.planned(1, parameter_server=role(1), worker=role(1))
    for failure in range(3):
        assert world.status["phase"] != "Failed", failure
        [pod] = world.pods(failing)
        world.end(pod, 7, message="boom\nValueError: bad")
        world.now += 60
        world.live()
    assert world.status["phase"] == "Failed"
    assert world.condition("Failed")["reason"] == code  # type: ignore[index]  # it is there
    assert world.status["rootCause"]["exitCode"] == 7
    assert "ValueError: bad" in world.status["reason"]
    assert [world.pods(name) for name in ("trainer", "ps", "worker")] == [[], [], []]


def test_one_worker_given_up_of_two_fails_nobody() -> None:
    world = EasydlWorld(easydl(worker={"template": template(), "restartCount": 0}))
    world.planned(2, parameter_server=role(1), worker=role(2))
    world.end("j-worker-0", 1)
    world.live()
    assert world.pods("worker") == ["j-worker-1"]
    assert world.status["phase"] == "Running"


def test_the_trainers_exit_ends_the_job() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2))
    world.end("j-trainer", 0)
    world.live()
    assert (world.status["phase"], world.status["reason"]) == ("Succeeded", "the trainer finished")
    assert world.names("Pod") == ["j-trainer"]
    assert world.reported()["reason"] == "the job is over"


def test_suspending_frees_the_pods_and_resuming_brings_them_back() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2))
    world.edit(lambda spec: spec.update(suspend=True))
    world.live()
    assert world.names("Pod") == []
    assert world.status["replicaStatuses"]["trainer"] == {}
    world.edit(lambda spec: spec.update(suspend=False))
    world.live()
    assert [len(world.pods(name)) for name in ("trainer", "ps", "worker")] == [1, 1, 2]


@pytest.mark.case("acceptance-12")
def test_resumed_with_a_plan_that_finds_no_room_the_trainer_comes_back() -> None:
    """It may find a plan that does."""
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2))
    world.edit(lambda spec: spec.update(suspend=True))
    world.live()
    world.give(0)
    world.live()
    assert world.names("Pod") == []
    world.edit(lambda spec: spec.update(suspend=False))
    world.live()
    assert world.names("Pod") == ["j-trainer-1"]
    assert world.condition("Queued")["status"] == "True"  # type: ignore[index]  # it is there
    world.give(2)
    world.live()
    assert [len(world.pods(name)) for name in ("trainer", "ps", "worker")] == [1, 1, 2]


def test_a_plan_in_flight_is_overtaken_by_the_next_one() -> None:
    world = EasydlWorld()
    world.planned(1, parameter_server=role(1), worker=role(1))
    world.plan(parameter_server=role(3), worker=role(4))
    world.give(4)
    world.settle()  # pods are made and do not run yet
    world.plan(parameter_server=role(2), worker=role(2))
    world.give(2)
    world.live()
    assert [len(world.pods(name)) for name in ("ps", "worker")] == [2, 2]


def test_tensorflow_finds_its_cluster() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(2), worker=role(3), evaluator=role(1))
    env = {pod: json.loads(world.environment(pod)["TF_CONFIG"]) for pod in world.names("Pod") if pod != "j-trainer"}
    cluster = {
        "ps": ["j-ps-0.ns.svc:2222", "j-ps-1.ns.svc:2222"],
        "chief": ["j-worker-0.ns.svc:3333"],
        "worker": ["j-worker-1.ns.svc:3333", "j-worker-2.ns.svc:3333"],
    }
    assert all(one["cluster"] == cluster for one in env.values())
    assert env["j-ps-1"]["task"] == {"type": "ps", "index": 1}
    assert env["j-worker-0"]["task"] == {"type": "chief", "index": 0}
    assert env["j-worker-1"]["task"] == {"type": "worker", "index": 0}
    assert env["j-evaluator-0"]["task"] == {"type": "evaluator", "index": 0}
    assert world.environment("j-worker-0")["EDL_TRAINER_ADDRESS"] == "j-trainer.ns.svc:50001"


@pytest.mark.case("acceptance-15")
def test_where_pods_share_a_host_every_member_of_tensorflows_cluster_has_a_port() -> None:
    """Its servers listen on all addresses of the host."""
    world = EasydlWorld()
    world.settings = PodSettings(data_root="/home/edl/data")
    world.planned(3, parameter_server=role(2), worker=role(3))
    told = [json.loads(world.environment(pod)["TF_CONFIG"]) for pod in world.names("Pod") if pod != "j-trainer"]
    assert all(one["cluster"] == told[0]["cluster"] for one in told)
    members = [member for members in told[0]["cluster"].values() for member in members]
    ports = {int(member.rpartition(":")[2]) for member in members}
    assert len(ports) == len(members) == 5
    assert all(12000 <= port < 30000 for port in ports)


def test_torchrun_and_horovod_find_theirs() -> None:
    job = easydl(distributionStrategy="ring-allreduce")
    del job["spec"]["parameterServer"]
    world = EasydlWorld(job)
    world.planned(2, worker=role(4), parameter_server=role(3))
    assert world.pods("ps") == []
    env = world.environment("j-worker-1")
    assert (env["PET_NNODES"], env["PET_RDZV_ENDPOINT"]) == ("1:1000", "j-worker-0.ns.svc:29400")
    assert (env["HOROVOD_RANK"], env["HOROVOD_SIZE"], env["HOROVOD_HOSTNAME"]) == (
        "1",
        "4",
        "j-worker-1.ns.svc",
    )
    assert "TF_CONFIG" not in env


@pytest.mark.parametrize(("strategy", "brought"), [("ring-allreduce", True), ("parameter_server", False)])
def test_workers_of_torchrun_are_brought_our_rendezvous(strategy: str, brought: bool) -> None:
    job = easydl(distributionStrategy=strategy)
    if brought:
        del job["spec"]["parameterServer"]
    world = EasydlWorld(job)
    world.settings = PodSettings(carries_runtime=True, access=ServiceAccess("https://edl:8443"))
    world.planned(2, worker=role(2), parameter_server=role(1))
    found = {name: "initContainers" in world.objects["Pod", name]["spec"] for name in world.names("Pod")}
    assert {name: value for name, value in found.items() if "worker" in name} == {
        "j-worker-0": brought,
        "j-worker-1": brought,
    }
    assert not any(value for name, value in found.items() if "worker" not in name)
    assert ("PYTHONPATH" in world.environment("j-worker-0")) == brought


def test_a_job_at_rest_is_not_written() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2))
    before = list(world.writes)
    world.now += 3600
    world.settle()
    words = [write for write in world.writes[len(before) :] if write != "status"]
    assert words == []
    world.settle()
    assert len(world.writes) <= len(before) + 1


def test_a_service_of_somebody_else_is_not_touched() -> None:
    world = EasydlWorld()
    world.put("Service", {"metadata": {"name": "j-ps-0", "namespace": "ns"}, "spec": {"selector": {"app": "mine"}}})
    world.live()
    world.plan(parameter_server=role(1), worker=role(1))
    world.give(1)
    world.settle()
    assert world.objects["Service", "j-ps-0"]["spec"]["selector"] == {"app": "mine"}
    assert world.names("Pod") == ["j-trainer"]
    assert "belongs to somebody else" in world.condition("NameTaken")["message"]  # type: ignore[index]  # it is there


@pytest.mark.case("acceptance-20")
def test_the_reason_of_a_plan_follows_what_is_granted() -> None:
    """The same words with another number are other words."""
    world = EasydlWorld()
    world.planned(14, worker=role(14))
    for size in (14, 3):
        world.plan(worker=role(size))
        world.grant = Grant(size, "AtMaximum", f"holds {size}: at replicas", roles=ROLES)
        world.live()
        status = world.reported()
        assert (status["granted"]["worker"], status["reason"]) == (size, f"holds {size}: at replicas")


def test_events_tell_the_story() -> None:
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2))
    world.end("j-worker-0", 3)
    world.live()
    reasons = [event.partition(":")[0] for event in world.events]
    assert {"Admitted", "Running", "Planned", "WorkerFailed"} <= set(reasons)


@pytest.mark.parametrize("grants", [[1, 3, 2], [2, 0], [3, 1, 3]])
def test_sizes_follow_what_is_granted(grants: list[int]) -> None:
    world = EasydlWorld()
    plan: dict[str, Any] = {"parameter_server": role(1), "worker": role(3)}
    world.planned(grants[0], **plan)
    for size in grants:
        world.give(size)
        world.live()
        assert len(world.pods("worker")) == size
        wanted: Data = {"ps": 1 if size else 0, "worker": size}
        assert world.reported()["granted"] == wanted
    assert ROLES["worker"] == 1


@pytest.mark.case("acceptance-6")
@pytest.mark.parametrize("name", ["ps", "worker"])
def test_ready_means_ready_and_not_only_running(name: str) -> None:
    world = EasydlWorld()
    world.planned(1, parameter_server=role(1), worker=role(1))
    pod = world.pods(name)[0]
    world.set_status(pod, "Running", world.objects["Pod", pod]["status"]["containerStatuses"][0]["state"], ready=False)
    world.settle()
    ready = world.condition("Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"], world.status["phase"]) == ("False", "NotReady", "Running")


@pytest.mark.case("acceptance-22")
def test_every_role_prefers_the_nodes_of_the_plan() -> None:
    world = EasydlWorld()
    world.grant = Grant(1, "Started", "there is room", roles={"trainer": 1}, nodes={"trainer": ("n1",)})
    world.live()
    world.plan(parameter_server=role(2), worker=role(1), evaluator=role(1))
    places = {"ps": ("n2", "n3"), "worker": ("n4",), "evaluator": ("n5",)}
    world.grant = Grant(1, "Started", "there is room", roles=ROLES, nodes=places)
    world.live()
    wanted = {"j-trainer": "n1", "j-ps-0": "n2", "j-ps-1": "n3", "j-worker-0": "n4", "j-evaluator-0": "n5"}
    assert {name: _preferred_node(world.objects["Pod", name]) for name in world.names("Pod")} == wanted


def _preferred_node(pod: Data) -> str:
    wishes = pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return str(wishes[0]["preference"]["matchFields"][0]["values"][0])


def test_a_container_without_an_image_runs_in_edls_own() -> None:
    job = easydl()
    for name in ("worker", "parameterServer"):
        del job["spec"][name]["template"]["spec"]["containers"][0]["image"]
    world = EasydlWorld(job)
    world.planned(1, parameter_server=role(1), worker=role(1))
    own = world.settings.installation.image
    images = {name: world.objects["Pod", name]["spec"]["containers"][0]["image"] for name in world.names("Pod")}
    assert images == dict.fromkeys(["j-ps-0", "j-trainer", "j-worker-0"], own)


def more_servers_wait(granted: int = 1) -> EasydlWorld:
    """A job of one server and two workers that asks for three servers; so many are granted."""
    world = EasydlWorld()
    world.planned(2, parameter_server=role(1), worker=role(2))
    waits = Grant(2, "NoRoom", "holds 2: 2 more ps wait", roles={"trainer": 1, "ps": 1, "worker": 2})
    world.grant = waits
    world.live()
    world.plan(parameter_server=role(3), worker=role(2))
    world.grant = waits if granted == 1 else Grant(2, roles={**waits.roles, "ps": granted}, in_force={"ps": 1})
    world.settle()
    return world


@pytest.mark.case("acceptance-7")
def test_servers_that_a_plan_asks_for_in_addition_wait_for_their_grant() -> None:
    world = more_servers_wait()
    world.live()
    assert (world.pods("ps"), len(world.pods("worker"))) == (["j-ps-0"], 2)
    assert world.status["replicaStatuses"]["ps"] == {"desired": 1, "active": 1}
    assert world.status["scale"]["roles"] == {"trainer": 1, "ps": 1}
    assert world.reported()["granted"] == {"ps": 1, "worker": 2}
    ready = world.condition("Ready")
    assert ready is not None
    assert (ready["status"], world.status["phase"]) == ("True", "Running")


@pytest.mark.case("acceptance-7")
def test_a_new_leader_makes_no_more_servers_than_were_granted() -> None:
    world = more_servers_wait()
    world.grant = None
    world.live()
    assert world.pods("ps") == ["j-ps-0"]


@pytest.mark.case("acceptance-7")
def test_a_worker_that_comes_meanwhile_is_told_of_the_servers_that_there_are() -> None:
    world = more_servers_wait()
    world.end("j-worker-1", 3)
    world.live()
    [worker] = set(world.pods("worker")) - {"j-worker-0"}
    assert json.loads(world.environment(worker)["TF_CONFIG"])["cluster"]["ps"] == ["j-ps-0.ns.svc:2222"]


@pytest.mark.case("acceptance-7")
def test_servers_come_together_once_they_are_granted_and_the_job_stays_ready_meanwhile() -> None:
    world = more_servers_wait(granted=3)
    assert world.pods("ps") == ["j-ps-0", "j-ps-1", "j-ps-2"]
    assert world.status["scale"]["rolesInForce"] == {"ps": 1}
    ready = world.condition("Ready")
    assert ready is not None
    assert ready["status"] == "True", "what is in force runs"
    assert world.grant is not None
    world.grant = replace(world.grant, in_force={})
    world.live()
    assert "rolesInForce" not in world.status["scale"]
    assert world.status["replicaStatuses"]["ps"] == {"desired": 3, "active": 3}


@pytest.mark.case("acceptance-7")
def test_a_grant_of_servers_is_in_status_before_a_pod_is_made() -> None:
    world = more_servers_wait()
    assert world.grant is not None
    world.grant = replace(world.grant, roles={**world.grant.roles, "ps": 3})
    before = len(world.writes)
    world.settle()
    first, *others = world.writes[before:]
    assert "status" in first.lower(), first
    assert any("j-ps-2" in write for write in others)
