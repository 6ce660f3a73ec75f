"""A PyTorch ElasticJob as design 004 has it, and what that design left out: each rule a short story."""

import pytest
from msgspec.structs import replace

from edl.api.job_view import Installation
from edl.api.kubernetes import timestamp
from edl.jobs.core.actions import Delete
from edl.jobs.core.pods.pod_builder import PodSettings
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import Data


def test_pods_and_services_are_those_of_the_design() -> None:
    world = PytorchWorld()
    world.give(3)
    names = ["j-worker-0", "j-worker-1", "j-worker-2"]
    assert (world.names("Pod"), world.names("Service")) == (names, names)
    pod, service = world.objects["Pod", "j-worker-1"], world.objects["Service", "j-worker-1"]
    labels = {
        "group-name": "elastic.pytorch.org",
        "job-name": "j",
        "replica-type": "worker",
        "replica-index": "1",
    }
    assert pod["metadata"]["labels"].items() >= labels.items()
    assert service["spec"]["selector"].items() >= labels.items()
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["clusterIP"] == "None"
    assert pod["spec"]["hostname"] == service["metadata"]["name"], "whoever looks a worker up by its host finds it"
    assert pod["spec"]["restartPolicy"] == "Never"
    for body in (pod, service):
        assert [(one["kind"], one["uid"]) for one in body["metadata"]["ownerReferences"]] == [("ElasticJob", "uid-1")]


def test_the_environment_is_that_of_the_design_and_torchruns() -> None:
    world = PytorchWorld(elastic(container={"resources": {"limits": {"nvidia.com/gpu": 4, "cpu": 8}}}))
    world.give(3)
    variables = world.environment("j-worker-2")
    assert variables.items() >= {"JOB_ID": "j", "SIZE": "3", "MIN_SIZE": "2", "MAX_SIZE": "5"}.items()
    assert (variables["RDZV_ENDPOINT"], variables["PET_RDZV_ENDPOINT"]) == ("service:8443", "service:8443")
    wanted = {"PET_NNODES": "2:5", "PET_NPROC_PER_NODE": "4", "PET_RDZV_BACKEND": "edl", "PET_RDZV_ID": "uid-1-0"}
    assert variables.items() >= wanted.items()
    assert variables["PET_LOCAL_ADDR"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert (variables["EDL_INDEX"], variables["EDL_ROLE"], variables["EDL_ATTEMPT"]) == ("2", "worker", "0")


@pytest.mark.case("acceptance-3")
@pytest.mark.parametrize(
    ("endpoint", "backend"), [("etcd-service:2379", "etcd"), ("store:29400", "c10d"), ("10.0.0.1", "c10d")]
)
def test_a_rendezvous_of_the_users_own(endpoint: str, backend: str) -> None:
    world = PytorchWorld(elastic(rdzvEndpoint=endpoint))
    world.give(2)
    variables = world.environment("j-worker-0")
    assert (variables["PET_RDZV_BACKEND"], variables["PET_RDZV_ENDPOINT"], variables["RDZV_ENDPOINT"]) == (
        backend,
        endpoint,
        endpoint,
    )
    assert variables["PET_RDZV_CONF"] == "last_call_timeout=3,keep_alive_interval=2,keep_alive_max_attempt=3"
    assert variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1", (
        "or one kill leaves the others waiting for each other"
    )


def test_the_rendezvous_settings_are_the_templates_if_it_has_any() -> None:
    env = [{"name": "PET_RDZV_CONF", "value": "join_timeout=9"}]
    env += [{"name": "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "value": "0"}]
    world = PytorchWorld(elastic(rdzvEndpoint="store:29400", container={"env": env}))
    world.give(2)
    variables = world.environment("j-worker-0")
    assert (variables["PET_RDZV_CONF"], variables["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"]) == ("join_timeout=9", "0")


def test_edls_own_rendezvous_needs_none_of_them() -> None:
    world = PytorchWorld()
    world.give(2)
    assert not {"PET_RDZV_CONF", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"} & world.environment("j-worker-0").keys()


def test_what_the_template_sets_counts_and_only_the_first_container_is_the_worker() -> None:
    own = {"env": [{"name": "PET_MAX_RESTARTS", "value": "0"}, {"name": "EDL_INDEX", "value": "9"}]}
    world = PytorchWorld(elastic(container=own, others=[{"name": "side", "image": "y"}]))
    world.give(2)
    variables = world.environment("j-worker-0")
    assert (variables["PET_MAX_RESTARTS"], variables["EDL_INDEX"]) == ("0", "0")
    assert "env" not in world.objects["Pod", "j-worker-0"]["spec"]["containers"][1]


def test_conditions_of_a_job_that_runs_and_succeeds() -> None:
    world = PytorchWorld()
    world.give(0)
    assert (world.status["phase"], world.conditions()) == ("Pending", {"Created": "True", "Queued": "True"})
    world.granted(3)
    world.settle()
    assert world.status["phase"] == "Pending"
    world.live()
    assert (world.status["phase"], world.conditions()["Running"]) == ("Running", "True")
    created = world.condition("Created")
    assert created is not None
    assert (created["reason"], created["message"]) == ("ElasticJobCreated", "job j is created.")
    for name in world.workers:
        world.end(name, 0)
    world.live()
    assert world.status["phase"] == "Succeeded"
    ended = world.condition("Succeeded")
    assert ended is not None
    assert (ended["reason"], ended["message"]) == ("ElasticJobSucceeded", "ElasticJob j is successfully completed.")
    running = world.condition("Running")
    assert running is not None
    assert (running["status"], running["reason"]) == ("False", "ElasticJobRunning")
    assert world.counts == {"succeeded": 3}
    assert world.names("Pod") == ["j-worker-0", "j-worker-1", "j-worker-2"], "they stay for their logs"


def test_the_example_of_the_design_two_of_three_fail() -> None:
    world = PytorchWorld(elastic(policy="ExitCode"))
    world.give(3)
    world.end("j-worker-0", 1, message="Traceback\nValueError: no")
    world.live()
    assert world.status["phase"] == "Running", "two are enough"
    assert world.workers == ["j-worker-1", "j-worker-2"], "an exit code of 1 to 127 is not tried again"
    assert "ElasticJobRestarting: ElasticJob j is restarting because 1 Worker replica(s) failed." in world.events
    world.end("j-worker-1", 1)
    world.live()
    assert (world.status["phase"], world.counts) == ("Failed", {"active": 1, "failed": 2})
    variables = [(one["type"], one["status"], one["reason"]) for one in world.status["conditions"]]
    assert [one for one in variables if one[0] != "Warned"][:2] == [
        ("Created", "True", "ElasticJobCreated"),
        ("Running", "False", "ElasticJobRunning"),
    ]
    failed = world.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "ElasticJobFailed"
    assert failed["message"] == "ElasticJob j is failed because 2 Worker replica(s) failed."
    assert "ExitedWithCode: Pod: ns.j-worker-0 exited with code 1" in world.events
    assert world.events[-1] == "ElasticJobFailed: ElasticJob j is failed because 2 Worker replica(s) failed."
    assert world.status["rootCause"]["pod"] == "j-worker-0"
    assert "ValueError: no" in world.status["reason"]
    assert world.names("Pod") == ["j-worker-0", "j-worker-1", "j-worker-2"], "nothing is stopped, logs stay"


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "ExitCode"])
def test_a_worker_that_was_killed_is_replaced_at_once_under_its_index(policy: str) -> None:
    world = PytorchWorld(elastic(2, 2, 2, policy=policy))
    world.give(2)
    assert "edl.dev/attempt" not in world.selector("j-worker-1"), "the first pod has no predecessor"
    world.end("j-worker-1", 137, "OOMKilled")
    world.settle()
    assert (world.status["phase"], world.workers) == ("Restarting", ["j-worker-0", "j-worker-1-1"])
    assert (world.conditions()["Restarting"], world.conditions()["Running"]) == ("True", "False")
    assert world.selector("j-worker-1")["edl.dev/attempt"] == "1", "its Service leads to the new one"
    world.live()
    assert (world.status["phase"], world.conditions()["Restarting"]) == ("Running", "False")
    assert world.conditions()["Running"] == "True"


def test_never_means_never() -> None:
    world = PytorchWorld(elastic(2, 3, 3, policy="Never"))
    world.give(3)
    world.end("j-worker-2", 143)
    world.live()
    assert (world.status["phase"], world.workers) == ("Running", ["j-worker-0", "j-worker-1"])
    world.end("j-worker-1", 3)
    world.live()
    assert world.status["phase"] == "Failed"


def test_always_begins_again_after_a_good_end() -> None:
    world = PytorchWorld(elastic(1, 1, 1, policy="Always"))
    world.give(1)
    world.end("j-worker-0", 0)
    world.live()
    assert (world.status["phase"], world.workers) == ("Running", ["j-worker-0-1"])


def test_who_is_lost_to_others_is_no_failure_under_any_policy() -> None:
    world = PytorchWorld(elastic(2, 2, 2, policy="Never"))
    world.give(2)
    ended = {"exitCode": 137, "startedAt": timestamp.text(world.now), "finishedAt": timestamp.text(world.now)}
    world.set_status("j-worker-0", "Failed", {"terminated": ended}, reason="Evicted")
    world.lose("j-worker-1")
    world.live()
    assert world.workers == ["j-worker-0-1", "j-worker-1-1"]
    assert (world.status["phase"], world.counts) == ("Running", {"desired": 2, "active": 2})


def crash_until_given_up(world: PytorchWorld) -> None:
    for _ in range(10):
        world.live()
        if world.status["phase"] == "Failed":
            return
        for name in world.workers:
            world.end(name, 1, message="ModuleNotFoundError: no torch")
        world.now += 40
    raise AssertionError(f"it goes on for ever: {world.status}")


def test_an_image_that_crashes_at_once_fails_after_a_back_off_with_its_last_line() -> None:
    world = PytorchWorld(elastic(1, 1, 1))
    world.granted(1)
    crash_until_given_up(world)
    assert world.counts["failed"] == 6
    assert world.status["reason"].endswith("exit code 1: ModuleNotFoundError: no torch")


def test_the_second_failure_in_a_row_waits() -> None:
    world = PytorchWorld(elastic(1, 1, 1))
    world.give(1)
    for attempt in ("", "-1"):
        world.end(f"j-worker-0{attempt}", 1)
        world.settle()
    assert world.workers == []
    assert world.reconcile().requeue_at == world.now + 1.0
    assert world.names("Service") == ["j-worker-0"], "its slot keeps its Service"
    world.now += 1.0
    world.live()
    assert world.workers == ["j-worker-0-2"]


@pytest.mark.parametrize("place", ["", "runPolicy", "RunPolicy"])
def test_the_users_own_limit_ends_the_job(place: str) -> None:
    limit = {"backoffLimit": 1}
    world = PytorchWorld(elastic(1, 5, 3, **({place: limit} if place else limit)))
    world.give(3)
    for attempt in ("", "-1"):
        world.end(f"j-worker-0{attempt}", 1)
        world.live()
    assert world.status["phase"] == "Failed"
    failed = world.condition("Failed")
    assert failed is not None
    assert failed["message"] == "Job j has failed because it has reached the specified backoff limit"


def test_growing_and_shrinking_takes_those_that_cost_least() -> None:
    world = PytorchWorld()
    world.give(4)
    assert world.status["scale"]["reason"] == "room for 4"
    world.now += 10
    world.granted(5)
    world.settle()
    assert world.status["phase"] == "Scaling"
    world.grant = None
    world.granted(4)
    world.live()
    assert world.workers == [f"j-worker-{index}" for index in range(4)], "the one that does not run yet goes"
    assert world.names("Service") == [f"j-worker-{index}" for index in range(4)]
    world.set_status("j-worker-1", "Running", {"running": {}}, ready=False)
    world.give(3)
    assert world.workers == ["j-worker-0", "j-worker-2", "j-worker-3"], "then the one that is not ready"
    world.give(2)
    assert world.workers == ["j-worker-0", "j-worker-2"], "then of the same age the highest"
    assert (world.status["phase"], world.status["scale"]["current"]) == ("Running", 2)
    assert [one["to"] for one in world.status["scale"]["history"]] == [4, 5, 4, 3, 2]


def test_one_that_is_still_leaving_keeps_nobody_waiting() -> None:
    world = PytorchWorld()
    world.give(3)
    world.objects["Pod", "j-worker-1"]["metadata"]["deletionTimestamp"] = "2001-09-09T02:00:00Z"
    world.settle()
    assert world.workers == ["j-worker-0", "j-worker-1-1", "j-worker-2"]
    assert world.selector("j-worker-1")["edl.dev/attempt"] == "1"


def test_a_job_that_is_suspended_comes_back_as_another_attempt() -> None:
    world = PytorchWorld()
    world.give(3)
    assert world.status["minimumReached"]
    world.edit(lambda spec: spec.update(suspend=True))
    world.live()
    assert (world.workers, world.names("Service")) == ([], [])
    assert (world.status["phase"], world.status["attempt"]) == ("Pending", 1)
    assert "minimumReached" not in world.status
    world.edit(lambda spec: spec.update(suspend=False))
    world.live()
    assert world.status["phase"] == "Running"
    assert world.environment("j-worker-0-1")["PET_RDZV_ID"] == "uid-1-1"
    world.end("j-worker-0-1", 137)
    world.live()
    assert world.environment("j-worker-0-2")["PET_RDZV_ID"] == "uid-1-1", "one worker does not make an attempt"


def test_all_preempted_and_resumed_when_there_is_room() -> None:
    world = PytorchWorld()
    world.give(3)
    world.give(0)
    assert (world.status["phase"], world.workers) == ("Pending", [])
    assert world.conditions() == {"Created": "True", "Running": "False", "Queued": "True"}
    world.give(2)
    assert (world.status["phase"], world.status["attempt"]) == ("Running", 1)


def test_while_too_few_run_the_job_restarts_and_does_not_fail() -> None:
    world = PytorchWorld(elastic(2, 3, 3))
    world.give(3)
    for name in ("j-worker-0", "j-worker-1"):
        world.lose(name)
    world.settle()
    assert (world.status["phase"], world.conditions()["Running"]) == ("Restarting", "False")
    assert "are missing" in (world.condition("Restarting") or {})["message"]
    world.live()
    assert world.status["phase"] == "Running"


def test_a_deadline_counts_from_the_first_room() -> None:
    world = PytorchWorld(elastic(activeDeadlineSeconds=100))
    world.give(0)
    world.now += 1000
    world.give(3)
    assert world.reconcile().requeue_at == world.now + 100
    world.now += 100
    world.live()
    failed = world.condition("Failed")
    assert failed is not None
    assert (failed["reason"], world.status["phase"]) == ("JobFailed", "Failed")
    assert failed["message"] == "Job j has failed because it was active longer than specified deadline"


def test_a_job_that_does_not_start_in_time_fails_and_says_why() -> None:
    world = PytorchWorld(elastic(startTimeoutSeconds=60))
    world.give(0)
    assert world.reconcile().requeue_at == world.now + 60
    world.now += 60
    world.settle()
    failed = world.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "StartTimeout"
    assert failed["message"].startswith(
        "ElasticJob j is failed because fewer than 2 Worker replica(s) ran within 60 s."
    )
    assert "waits for cpu" in failed["message"]


def test_who_starts_at_the_last_moment_has_started() -> None:
    world = PytorchWorld(elastic(startTimeoutSeconds=60))
    world.granted(3)
    world.settle()
    world.run_all()
    world.now += 60
    world.settle()
    assert world.status["phase"] == "Running"


def test_who_has_started_once_may_wait_for_ever() -> None:
    world = PytorchWorld(elastic(startTimeoutSeconds=60))
    world.give(3)
    world.give(0)
    world.now += 1000
    world.settle()
    assert world.status["phase"] == "Pending"


@pytest.mark.parametrize(
    ("policy", "pods", "services"),
    [
        ("None", ["j-worker-0", "j-worker-1", "j-worker-2"], ["j-worker-0", "j-worker-1", "j-worker-2"]),
        ("Running", ["j-worker-0", "j-worker-1"], ["j-worker-0", "j-worker-1"]),
        ("All", [], []),
    ],
)
def test_what_is_left_of_a_job_that_is_over(policy: str, pods: list[str], services: list[str]) -> None:
    world = PytorchWorld(elastic(policy="ExitCode", cleanPodPolicy=policy))
    world.give(3)
    for name in ("j-worker-0", "j-worker-1"):
        world.end(name, 1)
    world.live()
    world.now += 60
    world.live()
    assert (world.names("Pod"), world.names("Service")) == (pods, services)
    assert world.counts["failed"] == 2


def test_a_job_is_deleted_when_its_time_has_passed() -> None:
    world = PytorchWorld(elastic(1, 1, 1, ttlSecondsAfterFinished=30))
    world.give(1)
    world.end("j-worker-0", 0)
    world.live()
    assert world.reconcile().requeue_at == world.now + 30
    world.now += 30
    assert [type(one) for one in world.reconcile().actions] == [Delete]
    world.settle()
    assert world.job is None


def test_a_worker_without_progress_is_replaced_and_the_reason_says_so() -> None:
    world = PytorchWorld(elastic(annotations={"edl.dev/stall-timeout": "30s"}))
    world.give(3)
    world.silence = {"j-worker-0": 12.0, "j-worker-1": 3.0}
    assert world.reconcile().requeue_at == world.now + 18
    world.silence = {"j-worker-0": 31.0, "j-worker-1": 22.0}
    world.settle()
    assert world.workers == ["j-worker-0-1", "j-worker-1", "j-worker-2"]
    assert "WorkerStalled: Pod: ns.j-worker-0 made no progress (for 31 s); it is replaced" in world.events
    assert world.status["reason"] == "worker j-worker-0 failed: Stalled: for 31 s"


def test_without_the_annotation_nobody_is_judged_by_silence() -> None:
    world = PytorchWorld()
    world.give(3)
    world.silence = {"j-worker-0": 1e6}
    assert (world.reconcile().actions, world.reconcile().requeue_at) == ((), None)


def test_after_the_first_good_end_nobody_new_is_begun() -> None:
    world = PytorchWorld()
    world.give(3)
    world.end("j-worker-0", 0)
    world.granted(5)
    world.end("j-worker-1", 1)
    world.live()
    assert (world.workers, world.status["phase"] in ("Running", "Scaling", "Restarting")) == (["j-worker-2"], True)
    world.end("j-worker-2", 0)
    world.live()
    assert (world.status["phase"], world.counts) == ("Succeeded", {"succeeded": 2, "failed": 1})


def test_a_side_container_does_not_keep_a_worker_that_has_ended() -> None:
    world = PytorchWorld(elastic(1, 1, 1, others=[{"name": "side", "image": "y"}]))
    world.give(1)
    world.set_status("j-worker-0", "Running", {"terminated": {"exitCode": 0}})
    world.live()
    assert (world.status["phase"], world.names("Pod")) == ("Succeeded", [])


def test_names_of_others_are_left_alone() -> None:
    world = PytorchWorld()
    theirs = {"metadata": {"name": "j-worker-0", "labels": {}}, "spec": {}, "status": {"phase": "Running"}}
    world.put("Pod", theirs)
    foreign: Data = {"metadata": {"name": "j-worker-1", "labels": {}}, "spec": {"selector": {"a": "b"}}}
    world.put("Service", foreign)
    world.give(2)
    assert world.workers == ["j-worker-0-1", "j-worker-1"]
    assert world.selector("j-worker-1") == {"a": "b"}
    assert world.conditions()["NameTaken"] == "True"


def test_a_job_at_rest_is_left_in_peace() -> None:
    world = PytorchWorld()
    world.give(3)
    written = len(world.writes)
    world.now += 3600
    world.grant = None
    world.settle()
    assert world.writes[written:] == []


def test_edits_count_for_new_pods() -> None:
    world = PytorchWorld()
    world.give(3)
    world.edit(lambda spec: spec.update(maxReplicas=9))
    world.edit(lambda spec: spec["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0].update(image="new"))
    world.give(4)
    assert world.environment("j-worker-3")["PET_NNODES"] == "2:9"
    images = [world.objects["Pod", f"j-worker-{index}"]["spec"]["containers"][0]["image"] for index in (0, 3)]
    assert images == ["x", "new"]


def test_a_big_job_does_not_drown_its_own_events() -> None:
    world = PytorchWorld(elastic(2, 30, 30))
    world.granted(30)
    action_events = world.reconcile().action_events
    assert [one.reason for one in action_events] == ["SuccessfulCreatePod"]
    assert action_events[0].message.endswith("and 25 more")
    world.settle()
    for name in world.names("Pod"):
        world.run(name)
    action_events = world.reconcile().action_events
    assert [one.reason for one in action_events] == ["SuccessfulCreateService"]
    assert action_events[0].message.endswith("and 25 more")


def test_a_few_have_an_event_each() -> None:
    world = PytorchWorld(elastic(2, 30, 30))
    world.granted(2)
    assert [one.message for one in world.reconcile().action_events] == [
        "Created pod: j-worker-0",
        "Created pod: j-worker-1",
    ]


def test_a_service_is_made_when_a_node_has_begun_with_its_pod() -> None:
    """Before that it would lead nowhere. An init container that waits for names runs by then."""
    world = PytorchWorld()
    world.granted(2)
    world.settle()
    assert (world.names("Pod"), world.names("Service")) == (["j-worker-0", "j-worker-1"], [])
    world.set_status("j-worker-1", "Pending", {"waiting": {"reason": "PodInitializing"}})
    assert [one.message for one in world.reconcile().action_events] == ["Created service: j-worker-1"]
    world.settle()
    assert world.names("Service") == ["j-worker-1"]
    world.run("j-worker-0")
    world.settle()
    assert world.names("Service") == ["j-worker-0", "j-worker-1"]


def test_trouble_with_a_pod_is_told_at_once_and_its_words_only_now_and_then() -> None:
    world = PytorchWorld()
    world.granted(3)
    world.settle()
    assert world.status["reason"] == "workers are starting"
    for words, reason in (("pull 1", "ImagePullBackOff: pull 1"), ("pull 2", "ImagePullBackOff: pull 1")):
        world.set_status("j-worker-0", "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": words}})
        world.settle()
        assert world.status["reason"] == f"pod j-worker-0: {reason}"
    world.now += 61
    world.settle()
    assert world.status["reason"].endswith("pull 2")


def test_the_token_is_made_before_the_pods() -> None:
    world = PytorchWorld()
    world.secrets = True
    world.give(2)
    assert world.writes[1].startswith("Create Secret/j-ptej-")
    variables = world.environment("j-worker-0")
    assert (variables["EDL_JOB_TOKEN"], variables["EDL_SERVICE_CA"]) == ("token", "ca")


def test_every_worker_is_brought_the_runtime_and_the_code_whenever_it_comes() -> None:
    code = {"edl.dev/code": f"j-code-1f 1 {'ab' * 32}"}
    world = PytorchWorld(elastic(annotations=code))
    world.settings = replace(world.settings, carries_runtime=True, installation=Installation(image="edl:own"))
    world.give(2)
    world.end("j-worker-1", 137)
    world.give(3)
    brought = [world.objects["Pod", name]["spec"]["initContainers"] for name in world.workers]
    assert len(brought) == 3
    assert all(one == brought[0] for one in brought)
    assert (brought[0][0]["image"], "--code" in brought[0][0]["command"]) == ("edl:own", True)
    assert world.environment(world.workers[0])["PYTHONPATH"] == "/edl/runtime"
    assert not world.step()


def test_without_a_job_service_no_runtime_is_brought() -> None:
    world = PytorchWorld()
    world.settings = PodSettings(carries_runtime=True)
    world.give(2)
    assert "initContainers" not in world.objects["Pod", "j-worker-0"]["spec"]
