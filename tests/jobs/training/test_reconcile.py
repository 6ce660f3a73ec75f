"""A TrainingJob from the first look to the last, in a world of a page: rules of life, failure and release."""

from typing import Any

import pytest
from msgspec.structs import replace

from edl.api.kubernetes.core import Pod, convert
from edl.jobs.core.grant import Grant
from edl.jobs.core.outcome import Refusal
from edl.jobs.core.pods.environment import ServiceAccess
from edl.jobs.core.pods.pod_builder import PodSettings
from tests.jobs.world import Data, World, manifest


def running(size: int = 2, **spec: Any) -> World:
    world = World(manifest(**spec))
    world.grant = Grant(size, "Started", f"starts with {size}")
    world.live()
    assert world.status["phase"] == "running"
    return world


def role(world: World, name: str) -> dict[str, int]:
    found = next(one for one in world.status["replica_statuses"] if one["role"] == name)
    return {key: value for key, value in found.items() if key != "role"}


def test_nothing_is_made_before_the_scheduler_speaks_or_while_it_says_wait() -> None:
    world = World()
    assert world.reconcile().requeue_at is not None
    assert not world.step()
    world.grant = Grant(0, "NoRoom", "needs 2 CPU")
    world.settle()
    assert not world.objects
    assert (world.status["phase"], world.status["reason"]) == ("creating", "needs 2 CPU")
    queued = world.condition("Queued")
    assert queued is not None
    assert (queued["status"], queued["reason"], queued["message"]) == ("True", "NoRoom", "needs 2 CPU")


def test_a_job_that_nobody_plans_for_says_so_after_a_second() -> None:
    world = World()
    world.now += 1.5
    world.settle()
    assert world.status["reason"] == "the scheduler has not looked at it yet"
    assert "target" not in world.status["scale_status"]


def test_children_come_in_order_and_the_job_runs_when_every_minimum_pod_does() -> None:
    world = World(manifest(etcd={"replicas": 3}))
    world.grant = Grant(2, "Started", "starts with 2")
    world.settle()
    assert [write for write in world.writes if "Create" in write] == [
        "Create Service/j-etcd",
        "Create StatefulSet/j-etcd",
        "Create Service/j-master",
        "Create ReplicaSet/j-master",
        "Create Service/j-pserver",
        "Create ReplicaSet/j-pserver",
        "Create Job/j-trainer",
        "Create Pod/j-trainer-0",
        "Create Pod/j-trainer-1",
    ]
    assert world.status["phase"] == "creating"
    assert world.writes[0] == "status", "the grant is durable before anything is made"
    for name in world.names("Pod")[:-1]:
        world.run(name)
    world.settle()
    assert world.status["phase"] == "creating"
    assert "Create Service/j-trainer" in world.writes, "made when there are trainers that it can lead to"
    world.run(world.names("Pod")[-1])
    world.settle()
    assert world.status["phase"] == "running"
    assert (role(world, "etcd")["active"], role(world, "pserver")["active"], role(world, "master")["active"]) == (
        3,
        2,
        1,
    )
    assert role(world, "trainer") == {"desired": 2, "active": 2}
    assert world.status["scale_status"]["current"] == 2


def test_few_writes_bring_a_job_to_running() -> None:
    world = running()
    made = [write for write in world.writes if write.startswith("Create")]
    assert len(world.writes) - len(made) <= 5, "the operator makes them fewer still, by waiting for more of a kind"
    assert world.reconcile().actions == ()
    assert not world.step(), "a job at rest is left at rest"


def test_scaling_up_and_down() -> None:
    world = running()
    world.grant = Grant(4, "Grown", "+2: 2 CPU were free")
    world.settle()
    assert (world.status["phase"], world.replicas("Job", "trainer")) == ("scaling", 4)
    assert world.pods() == ["j-trainer-0", "j-trainer-1", "j-trainer-2", "j-trainer-3"]
    world.live()
    assert world.status["phase"] == "running"

    world.grant = Grant(2, "MadeRoom", "-2: makes room", leavers={"trainer": {"n1": 2}})
    world.settle()
    assert (world.status["phase"], world.pods()) == ("scaling", ["j-trainer-0", "j-trainer-1"])
    world.live()
    assert world.status["phase"] == "running"
    history = world.status["scale_status"]["history"]
    assert [(one.get("from", 0), one["to"]) for one in history] == [(0, 2), (2, 4), (4, 2)]
    assert {"Admitted: trainers 0 -> 2: starts with 2", "ScaledUp: trainers 2 -> 4: +2: 2 CPU were free"} <= set(
        world.events
    )
    assert "ScaledDown: trainers 4 -> 2: -2: makes room" in world.events


def test_a_grown_pod_prefers_the_node_of_the_plan() -> None:
    world = running()
    world.grant = Grant(3, nodes={"trainer": ("n7",)})
    world.settle()
    pod = convert(world.objects["Pod", "j-trainer-2"], Pod)
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.node_affinity is not None
    [preferred] = pod.spec.affinity.node_affinity.preferred
    assert preferred.preference.match_fields[0].values == ("n7",)


def test_parameter_servers_follow_the_trainers_in_proportion() -> None:
    world = running(pserver={"min-instance": 1, "max-instance": 3})
    assert world.replicas("ReplicaSet", "pserver") == 1
    world.grant = Grant(4)
    world.live()
    assert world.replicas("ReplicaSet", "pserver") == 3


@pytest.mark.parametrize("fault_tolerant", [True, False])
def test_what_fault_tolerance_decides(fault_tolerant: bool) -> None:
    world = running(fault_tolerant=fault_tolerant)
    world.end("j-trainer-1", 3, message="Traceback\nValueError: bad data")
    world.live()
    if fault_tolerant:
        assert world.status["phase"] == "running"
        assert world.pods() == ["j-trainer-0", "j-trainer-1-1"]
        assert "TrainerFailed: j-trainer-1: exit code 3; replaced (1 of 6 failures)" in world.events
    else:
        assert world.status["phase"] == "failed"
        assert world.status["reason"] == "trainer j-trainer-1 failed: exit code 3: ValueError: bad data"
        cause = {"pod": "j-trainer-1", "exit_code": 3, "message": "Traceback\nValueError: bad data"}
        assert world.status["root_cause"] == cause


def test_the_sixth_failure_of_a_slot_fails_a_tolerant_job() -> None:
    world = running()
    for _ in range(6):
        assert world.status["phase"] == "running"
        world.now += 30
        world.end(world.pods()[0], 137, "OOMKilled")
        world.live()
    assert world.status["phase"] == "failed"
    assert world.status["root_cause"]["reason"] == "OOMKilled"


def test_eviction_preemption_and_deletion_never_fail_a_job() -> None:
    world = running(fault_tolerant=False)
    world.now += 60
    world.set_status(world.pods()[0], "Failed", {}, reason="Evicted")
    world.live()
    world.lose(world.pods()[0])
    world.live()
    world.set_status(world.pods()[1], "Failed", {}, reason="Preempting")
    world.live()
    assert world.status["phase"] == "running"
    assert role(world, "trainer") == {"desired": 2, "active": 2}


def test_success_releases_the_servers_and_keeps_the_trainers_for_their_logs() -> None:
    world = running()
    world.end("j-trainer-0", 0)
    world.live()
    assert world.status["phase"] == "running"
    world.end("j-trainer-1", 0)
    world.live()
    assert (world.status["phase"], world.status["reason"]) == ("succeeded", "all 2 trainers finished")
    assert (world.replicas("ReplicaSet", "master"), world.replicas("ReplicaSet", "pserver")) == (0, 0)
    assert world.names("Pod") == ["j-trainer-0", "j-trainer-1"]
    assert "completion_time" in world.status
    assert not world.step()


def test_failure_releases_everything_that_runs() -> None:
    world = running(fault_tolerant=False)
    world.end("j-trainer-1", 1)
    world.live()
    assert world.names("Pod") == ["j-trainer-1"]
    assert world.replicas("Job", "trainer") == 0
    conditions = {one["type"] for one in world.objects["Job", "j-trainer"]["status"]["conditions"]}
    assert conditions == {"FailureTarget", "Failed"}


def test_the_batch_job_tells_the_truth_and_completes() -> None:
    world = running()
    job = world.objects["Job", "j-trainer"]
    assert job["spec"]["managedBy"] == "edl.dev/operator"
    assert (job["status"]["active"], job["status"]["ready"]) == (2, 2)
    for name in world.pods():
        world.end(name, 0)
    world.live()
    status = world.objects["Job", "j-trainer"]["status"]
    assert status["succeeded"] == 2
    assert [one["type"] for one in status["conditions"]] == ["SuccessCriteriaMet", "Complete"]
    assert {"startTime", "completionTime"} <= set(status)
    assert "active" not in status


def test_the_batch_job_fails_only_when_the_last_trainer_is_gone() -> None:
    world = running(fault_tolerant=False)
    world.end("j-trainer-1", 1)
    world.settle()
    status = world.objects["Job", "j-trainer"]["status"]
    assert ([one["type"] for one in status["conditions"]], status["terminating"]) == (["FailureTarget"], 1)
    world.live()
    assert world.objects["Job", "j-trainer"]["status"]["conditions"][-1]["type"] == "Failed"


def test_time_to_live_deletes_the_job_itself() -> None:
    world = running(ttl_seconds_after_finished=60)
    for name in world.pods():
        world.end(name, 0)
    world.live()
    assert world.reconcile().requeue_at == world.now + 60
    world.now += 60
    assert world.reconcile().requeue_at is None  # the deletion itself brings the next one
    world.settle()
    assert world.job is None


def test_suspending_frees_the_pods_and_keeps_the_place() -> None:
    world = running()
    world.edit(lambda spec: spec.update(suspend=True))
    world.live()
    assert (world.names("Pod"), world.status["phase"]) == ([], "creating")
    condition = world.condition("Suspended")
    assert condition is not None
    assert condition["status"] == "True"
    world.edit(lambda spec: spec.update(suspend=False))
    world.live()
    assert world.status["phase"] == "running"
    assert world.pods() == ["j-trainer-0-1", "j-trainer-1-1"]


def test_a_new_template_is_for_new_pods() -> None:
    world = running()
    world.edit(lambda spec: spec.update(image="new:2", trainer=spec["trainer"] | {"entrypoint": "python other.py"}))
    world.live()
    assert world.pods() == ["j-trainer-0", "j-trainer-1"], "running pods are left alone"
    world.end("j-trainer-0", 1)
    world.live()
    container = world.objects["Pod", "j-trainer-0-1"]["spec"]["containers"][0]
    assert (container["image"], container["command"][-1]) == ("new:2", "python other.py")
    assert world.status["observedGeneration"] == 2


def test_an_edit_that_cannot_be_honoured_is_refused_and_the_job_goes_on() -> None:
    world = running()
    world.edit(lambda spec: spec.update(port=9000, master=None))
    world.live()
    valid = world.condition("Valid")
    assert valid is not None
    assert (valid["status"], valid["reason"]) == ("False", "EditRefused")
    assert "spec.port: 9000 cannot take effect" in valid["message"]
    assert "spec.master: cannot be removed" in valid["message"]
    assert world.replicas("ReplicaSet", "master") == 1
    world.end("j-trainer-0", 1)
    world.live()
    env = world.objects["Pod", "j-trainer-0-1"]["spec"]["containers"][0]["env"]
    assert {"name": "PADDLE_INIT_PORT", "value": "7164"} in env
    world.edit(lambda spec: spec.update(port=7164, master={}))
    world.live()
    valid = world.condition("Valid")
    assert valid is not None
    assert valid["status"] == "True"


def test_the_next_refused_edit_is_told_of_at_once() -> None:
    world = running(mountPath="/data")
    world.edit(lambda spec: spec.update(port=9000))
    world.live()
    world.now += 1
    world.edit(lambda spec: spec.update(port=7164, mountPath="/other"))
    world.live()
    valid = world.condition("Valid")
    assert valid is not None
    assert "spec.mountPath: /other cannot take effect" in valid["message"]
    assert "spec.port" not in valid["message"]


@pytest.mark.case("acceptance-18")
@pytest.mark.parametrize("where", ["job", "trainer"])
def test_another_number_of_passes_is_refused_while_the_job_runs(where: str) -> None:
    world = running(passes=5)
    world.edit(lambda spec: (spec if where == "job" else spec["trainer"]).update(passes=2))
    world.live()
    valid = world.condition("Valid")
    assert valid is not None
    assert (valid["status"], valid["reason"]) == ("False", "EditRefused")
    assert "spec.trainer.passes: 2 cannot take effect" in valid["message"]
    world.end("j-trainer-0", 1)
    world.live()
    env = world.objects["Pod", "j-trainer-0-1"]["spec"]["containers"][0]["env"]
    assert {"name": "PADDLE_INIT_NUM_PASSES", "value": "5"} in env


@pytest.mark.case("acceptance-20")
def test_a_name_that_is_taken_is_told_of_once() -> None:
    """The reconcile sees it, and the API server has said so as well."""
    world = World()
    world.put("ReplicaSet", {"metadata": {"name": "j-master"}, "spec": {}})
    words = "ReplicaSet j-master exists and belongs to somebody else"
    world.refusals = (Refusal("ReplicaSet", "j-master", "ForeignObject", words, retry_at=world.now + 5, foreign=True),)
    world.grant = Grant(2)
    world.live()
    condition = world.condition("NameTaken")
    assert condition is not None
    assert condition["message"] == f"{words}; delete or rename it, EDL will not touch it"


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job", "Service"])
def test_a_foreign_object_in_our_name_is_never_touched(kind: str) -> None:
    world = World()
    name = {"ReplicaSet": "j-master", "Job": "j-trainer", "Service": "j-pserver"}[kind]
    world.put(kind, {"metadata": {"name": name}, "spec": {}})
    before = dict(world.objects[kind, name])
    world.grant = Grant(2)
    world.live()
    assert world.objects[kind, name] == before
    condition = world.condition("NameTaken")
    assert condition is not None
    assert f"{kind} {name} exists and belongs to somebody else" in condition["message"]
    assert world.pods() == []
    del world.objects[kind, name]
    world.live()
    assert world.status["phase"] == "running"
    condition = world.condition("NameTaken")
    assert condition is not None
    assert condition["status"] == "False"


def test_a_foreign_pod_in_our_name_is_passed_over() -> None:
    world = World()
    world.put("Pod", {"metadata": {"name": "j-trainer-0", "labels": {}}, "spec": {"containers": [{"name": "x"}]}})
    world.grant = Grant(2)
    world.live()
    assert world.pods() == ["j-trainer-0-1", "j-trainer-1"]


def test_what_an_earlier_job_of_the_name_left_is_waited_for() -> None:
    world = running()
    old = world.objects
    again = World(manifest())
    again.objects = {
        key: body | {"metadata": body["metadata"] | {"ownerReferences": [_owned_by("uid-0", key[0])]}}
        for key, body in old.items()
        if key[0] in ("ReplicaSet", "Job")
    }
    again.grant = Grant(2)
    again.settle()
    assert again.pods() == []
    assert again.condition("NameTaken") is None
    assert again.reconcile().requeue_at == again.now + 1
    again.objects.clear()
    again.live()
    assert again.status["phase"] == "running"


def _owned_by(uid: str, kind: str) -> dict[str, Any]:
    return {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "name": "j", "uid": uid, "controller": True}


@pytest.mark.parametrize(
    "key", [("Service", "j-master"), ("ReplicaSet", "j-pserver"), ("Job", "j-trainer"), ("Pod", "j-trainer-1")]
)
def test_a_child_deleted_by_hand_comes_back(key: tuple[str, str]) -> None:
    world = running()
    del world.objects[key]
    world.live()
    assert world.status["phase"] == "running"
    assert key in world.objects or key[0] == "Pod"
    assert len(world.pods()) == 2


def test_orphans_are_taken_back() -> None:
    world = World()
    world.secrets = True
    world.grant = Grant(2)
    world.live()
    del world.objects["Job", "j-trainer"]
    for key, body in world.objects.items():
        if key[0] in ("Pod", "ReplicaSet"):
            body["metadata"].pop("ownerReferences", None)
    world.live()
    assert world.pods() == ["j-trainer-0", "j-trainer-1"]
    job = world.objects["Job", "j-trainer"]["metadata"]["uid"]
    owners = [world.objects["Pod", name]["metadata"]["ownerReferences"][0]["uid"] for name in world.pods()]
    assert owners == [job, job]
    assert world.objects["ReplicaSet", "j-master"]["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


def test_sizes_edited_by_hand_are_set_right() -> None:
    world = running()
    world.objects["ReplicaSet", "j-master"]["spec"]["replicas"] = 5
    world.objects["Job", "j-trainer"]["spec"]["parallelism"] = 9
    world.live()
    assert (world.replicas("ReplicaSet", "master"), world.replicas("Job", "trainer")) == (1, 2)


def test_what_the_api_server_refuses_is_told_and_tried_again_later() -> None:
    world = running()
    words = "exceeded quota: compute"
    world.refusals = (Refusal("Pod", "j-trainer-2", "Forbidden", words, retry_at=world.now + 5),)
    world.grant = Grant(4)
    world.settle()
    assert world.pods() == ["j-trainer-0", "j-trainer-1", "j-trainer-3"]
    condition = world.condition("Refused")
    assert condition is not None
    assert (condition["reason"], condition["message"]) == ("Forbidden", f"Pod j-trainer-2: {words}")
    assert world.reconcile().requeue_at == world.now + 5
    world.refusals = ()
    world.live()
    assert len(world.pods()) == 4
    condition = world.condition("Refused")
    assert condition is not None
    assert condition["status"] == "False"


def test_a_pod_that_does_not_come_up_is_named() -> None:
    world = World()
    world.grant = Grant(2)
    world.settle()
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    world.set_status("j-trainer-0", "Pending", waiting)
    world.settle()
    assert world.status["reason"] == "pod j-trainer-0: ImagePullBackOff: no such image"
    ready = world.condition("Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("False", "ImagePullBackOff")
    world.set_status("j-trainer-0", "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "backing off"}})
    assert not world.step(), "other words for the same thing are no news"


def test_an_elastic_job_without_fault_tolerance_is_accepted_with_a_warning() -> None:
    world = running(fault_tolerant=False)
    warned = world.condition("Warned")
    assert warned is not None
    assert "one trainer that fails by itself fails the job" in warned["message"]
    assert [event for event in world.events if event.startswith("SpecWarning")]


def test_words_alone_are_not_written_at_once() -> None:
    world = World()
    world.grant = Grant(0, "NoRoom", "needs 2 CPU, 1 is free")
    world.settle()
    world.grant = Grant(0, "NoRoom", "needs 2 CPU, 1.5 are free")
    assert not world.step()
    world.now += 61
    assert world.step()
    assert world.status["reason"] == "needs 2 CPU, 1.5 are free"


def test_the_token_is_made_before_the_pods_that_need_it() -> None:
    world = World()
    world.settings = PodSettings(access=ServiceAccess("https://edl:8443"))
    world.secrets = True
    world.grant = Grant(2)
    world.live()
    assert world.writes[1] == "Create Secret/j-tj-token"
    assert world.writes[2].startswith("Create Secret/j-tj-")
    master = world.objects["ReplicaSet", "j-master"]["spec"]["template"]["spec"]["containers"][0]
    env = {one["name"]: one for one in master["env"]}
    assert env["EDL_SERVICE_URL"]["value"] == "https://edl:8443"
    assert env["EDL_JOB_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "j-tj-token", "key": "token"}
    variables = world.environment("j-trainer-1")
    assert (variables["EDL_SERVICE_URL"], variables["EDL_JOB_TOKEN"]) == ("https://edl:8443", "token")


def test_a_token_that_a_hand_removed_is_made_again_when_a_pod_misses_it() -> None:
    world = World()
    world.secrets = True
    world.grant = Grant(2)
    world.live()
    secrets = world.names("Secret")
    assert len(secrets) == 2
    for name in secrets:
        del world.objects["Secret", name]
    world.end("j-trainer-0", 1)
    world.settle()
    missing = {"waiting": {"reason": "CreateContainerConfigError", "message": "secret not found"}}
    world.set_status("j-trainer-0-1", "Pending", missing)
    world.settle()
    assert world.names("Secret") == secrets


def test_environment_of_a_trainer() -> None:
    resources = {"limits": {"cpu": "1500m", "nvidia.com/gpu": 2}}
    world = running(trainer={"passes": 10, "workspace": "/w", "resources": resources}, mountPath="/data/")
    container = world.objects["Pod", "j-trainer-1"]["spec"]["containers"][0]
    env = {one["name"]: one.get("value") for one in container["env"]}
    wanted = {
        "EDL_JOB_NAME": "j",
        "EDL_JOB_NAMESPACE": "ns",
        "EDL_JOB_UID": "uid-1",
        "EDL_ROLE": "trainer",
        "EDL_INDEX": "1",
        "EDL_ATTEMPT": "0",
        "PADDLE_JOB_NAME": "j",
        "TRAINERS": "2",
        "PSERVERS": "2",
        "ENTRY": "python train.py",
        "TOPOLOGY": "python train.py",
        "TRAINER_PACKAGE": "/w",
        "PADDLE_INIT_PORT": "7164",
        "PADDLE_INIT_PORTS_NUM": "1",
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2",
        "PADDLE_INIT_NUM_PASSES": "10",
        "PADDLE_INIT_USE_GPU": "1",
        "PADDLE_INIT_TRAINER_COUNT": "2",
        "PADDLE_TRAINER_ID": "1",
        "TRAINING_ROLE": "TRAINER",
        "MASTER": "j-master:8080",
        "EDL_DATA_DIR": "/data/",
    }
    assert {name: env.get(name) for name in wanted} == wanted
    assert "LD_LIBRARY_PATH" not in env
    assert (container["command"], container["workingDir"]) == (["sh", "-c", "python train.py"], "/w")
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.case("acceptance-13")
def test_without_a_master_trainers_know_the_fixed_number_of_them() -> None:
    world = running(3, master=None, trainer={"replicas": 3})
    env = {one["name"]: one.get("value") for one in world.objects["Pod", "j-trainer-2"]["spec"]["containers"][0]["env"]}
    assert (env["TRAINERS"], env["EDL_INDEX"], "MASTER" in env) == ("3", "2", False)


@pytest.mark.parametrize(
    ("resources", "use_gpu", "count"),
    [
        ({"limits": {"alpha.kubernetes.io/nvidia-gpu": 4}}, "1", "4"),
        ({"requests": {"cpu": "2500m"}}, "0", "3"),
        ({"requests": {"cpu": "100m"}}, "0", "1"),
        ({}, "0", "1"),
    ],
)
def test_devices_of_a_trainer(resources: dict[str, Any], use_gpu: str, count: str) -> None:
    world = running(trainer={"resources": resources})
    env = {one["name"]: one.get("value") for one in world.objects["Pod", "j-trainer-0"]["spec"]["containers"][0]["env"]}
    assert (env["PADDLE_INIT_USE_GPU"], env["PADDLE_INIT_TRAINER_COUNT"]) == (use_gpu, count)


def test_the_users_environment_counts_but_cannot_take_edls_names() -> None:
    given = [{"name": "TRAINERS", "value": "9"}, {"name": "EDL_INDEX", "value": "9"}, {"name": "MINE", "value": "x"}]
    template = {"spec": {"containers": [{"name": "trainer", "env": given}]}}
    world = running(trainer={"template": template})
    env = world.objects["Pod", "j-trainer-0"]["spec"]["containers"][0]["env"]
    values = {one["name"]: one.get("value") for one in env}
    assert (values["TRAINERS"], values["EDL_INDEX"], values["MINE"]) == ("9", "0", "x")
    assert len({one["name"] for one in env}) == len(env)


def test_pods_are_found_by_name_label_and_host() -> None:
    world = running()
    pod = world.objects["Pod", "j-trainer-1"]
    labels = pod["metadata"]["labels"]
    assert (labels["edl.dev/job"], labels["edl.dev/role"], labels["edl.dev/index"]) == ("j", "trainer", "1")
    assert (labels["paddle-job"], labels["batch.kubernetes.io/job-name"]) == ("j", "j-trainer")
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("j-trainer-1", "j-trainer")
    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", "j-trainer", True)
    service = world.objects["Service", "j-trainer"]["spec"]
    assert service["clusterIP"] == "None"
    assert service["selector"].items() <= labels.items()


def test_a_dead_node_is_not_waited_for_unless_the_user_says_so() -> None:
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    world = running(trainer={"template": {"spec": {"tolerations": [own]}}})
    found = world.objects["Pod", "j-trainer-0"]["spec"]["tolerations"]
    assert found[0] == own
    assert [one["key"] for one in found] == ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"]
    assert found[1]["tolerationSeconds"] == 10


def test_on_one_machine_the_data_of_a_job_is_one_directory() -> None:
    world = World(manifest(mountPath="/data"))
    world.settings = PodSettings(data_root="/srv/edl")
    world.grant = Grant(2)
    world.live()
    for name in world.names("Pod"):
        [volume] = world.objects["Pod", name]["spec"]["volumes"]
        assert volume["hostPath"]["path"] == "/srv/edl/ns/j"


def test_etcd_knows_its_members() -> None:
    world = running(etcd={"replicas": 3})
    command = world.objects["StatefulSet", "j-etcd"]["spec"]["template"]["spec"]["containers"][0]["command"]
    [cluster] = [word for word in command if word.startswith("--initial-cluster=")]
    assert cluster.count("http://") == 3
    env = {one["name"]: one.get("value") for one in world.objects["Pod", "j-trainer-0"]["spec"]["containers"][0]["env"]}
    assert env["ETCD_ENDPOINTS"].startswith("http://j-etcd-0.j-etcd.ns.svc:2379,")


def test_an_entrypoint_reaches_the_shell_as_it_was_written() -> None:
    world = running(trainer={"entrypoint": "echo $$ $HOME $(date)"})
    container = world.objects["Pod", "j-trainer-0"]["spec"]["containers"][0]
    assert container["command"][-1] == "echo $$$$ $HOME $(date)", "Kubernetes makes one of two"


@pytest.mark.case("acceptance-1")
def test_a_trainer_that_fails_after_the_end_counts_once() -> None:
    world = World(manifest(fault_tolerant=False))
    world.grant = Grant(3, "Started", "starts")
    world.live()
    world.end("j-trainer-0", 1)
    world.step()
    assert world.status["phase"] == "failed"
    world.end("j-trainer-1", 1)
    world.live()
    assert world.status["replica_statuses"][-1]["failed"] == 2


def preferred_nodes(template: Data) -> list[str]:
    affinity = template["spec"].get("affinity", {}).get("nodeAffinity", {})
    wishes = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return [wish["preference"]["matchFields"][0]["values"][0] for wish in wishes]


PLACES = {"etcd": ("n1", "n1", "n2"), "master": ("n1",), "pserver": ("n1", "n2"), "trainer": ("n3", "n3")}


def workload(world: World, kind: str, role_name: str) -> Data:
    spec: Data = world.objects[kind, f"j-{role_name}"]["spec"]
    return spec


@pytest.mark.case("acceptance-22")
@pytest.mark.parametrize(
    ("kind", "name"), [("StatefulSet", "etcd"), ("ReplicaSet", "master"), ("ReplicaSet", "pserver")]
)
def test_helpers_prefer_the_nodes_of_the_plan(kind: str, name: str) -> None:
    world = World(manifest(etcd={"replicas": 3}))
    world.grant = Grant(2, "Started", "starts with 2", nodes=PLACES)
    world.live()
    template = workload(world, kind, name)["template"]
    assert tuple(preferred_nodes(template)) == PLACES[name]
    assert template["spec"]["topologySpreadConstraints"], "or kube-scheduler spreads them over all nodes"
    world.grant = Grant(2, "Started", "starts with 2")
    assert not world.step(), "a plan that places nobody anew changes no template"
    world.grant = Grant(2, "Started", "starts with 2", nodes={name: ("n9",)})
    assert not world.step(), "nor does one for pods that are being made"


def test_servers_that_are_added_prefer_their_own_nodes() -> None:
    world = World(manifest(pserver={"min-instance": 1, "max-instance": 3}))
    world.grant = Grant(2, nodes={"pserver": ("n1",)})
    world.live()
    world.grant = Grant(4, nodes={"pserver": ("n2", "n3")})
    world.live()
    spec = workload(world, "ReplicaSet", "pserver")
    assert (spec["replicas"], preferred_nodes(spec["template"])) == (3, ["n2", "n3"])
    world.grant = Grant(2, nodes={"pserver": ("n4",)})
    world.live()
    spec = workload(world, "ReplicaSet", "pserver")
    assert (spec["replicas"], preferred_nodes(spec["template"])) == (1, ["n2", "n3"]), "who leaves needs no node"


def test_after_a_suspension_helpers_go_where_the_new_plan_sees_them() -> None:
    world = World(manifest(etcd={"replicas": 3}))
    world.grant = Grant(2, nodes=PLACES)
    world.live()
    assert world.job is not None
    world.job["spec"]["suspend"] = True
    world.grant = Grant(0)
    world.live()
    world.job["spec"]["suspend"] = False
    world.grant = Grant(2, nodes={"etcd": ("n7", "n8", "n9"), "master": ("n8",)})
    world.live()
    assert preferred_nodes(workload(world, "StatefulSet", "etcd")["template"]) == ["n7", "n8", "n9"]
    assert preferred_nodes(workload(world, "ReplicaSet", "master")["template"]) == ["n8"]


def test_a_template_of_the_user_keeps_its_own_wishes_beside_the_plans() -> None:
    own = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [own]}}
    world = World(manifest(master={"template": {"spec": {"affinity": affinity}}}))
    world.grant = Grant(2, nodes={"master": ("n1",)})
    world.live()
    found = workload(world, "ReplicaSet", "master")["template"]["spec"]["affinity"]["nodeAffinity"]
    [first, second] = found["preferredDuringSchedulingIgnoredDuringExecution"]
    assert first == own
    assert second["preference"]["matchFields"][0]["values"] == ["n1"]


@pytest.mark.case("acceptance-7")
def test_servers_that_are_asked_for_in_addition_wait_for_their_grant() -> None:
    world = World(manifest(pserver={"min-instance": 1}))
    roles = {"master": 1, "pserver": 1, "trainer": 2}
    world.grant = Grant(2, "Started", "starts with 2", roles=roles)
    world.live()
    assert world.status["scale_status"]["roles"] == {"master": 1, "pserver": 1}
    world.edit(lambda spec: spec.update(pserver={"min-instance": 3}))
    world.grant = replace(world.grant, code="NoRoom", message="holds 2: 2 more pserver wait")
    world.live()
    assert role(world, "pserver") == {"desired": 1, "active": 1}
    assert (len(world.pods("pserver")), world.status["phase"]) == (1, "running")
    world.grant = replace(world.grant, roles=roles | {"pserver": 3}, in_force={"pserver": 1})
    world.live()
    assert role(world, "pserver") == {"desired": 3, "active": 3}
    assert world.status["scale_status"]["roles_in_force"] == {"pserver": 1}
