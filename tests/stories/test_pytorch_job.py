"""Stories of a PyTorch ElasticJob, told through the Kubernetes API. Workers are plain programs that need no torch."""

import json
import textwrap

import pytest

from edl.kube.controllers.recorder import EVENTS
from edl.kube.rest.errors import ApiError
from edl.operator.resources import PODS, SERVICES, TRAINING_JOBS
from tests.stories.elastic import ELASTIC_JOBS, Elastic
from tests.stories.story import OBEDIENT, Data, Story


@pytest.fixture
def elastic(story: Story) -> Elastic:
    return Elastic(story)


async def test_a_job_runs_and_succeeds_as_the_design_draws_it(elastic: Elastic) -> None:
    variables = 'test "$JOB_ID $MIN_SIZE $MAX_SIZE $SIZE" = "j 2 3 2" && test "$PET_NNODES" = 2:3'
    meets = 'test "$PET_RDZV_BACKEND" = edl && test -n "$PET_RDZV_ENDPOINT$PET_RDZV_ID" && test -n "$PET_LOCAL_ADDR"'
    await elastic.submit(f"{variables} && {meets} && sleep 3", 2, 3)
    names = await elastic.until_running(3)
    assert names == ["j-worker-0", "j-worker-1", "j-worker-2"]

    async def named() -> bool:
        return await elastic.services() == names

    await elastic.until(named, "every worker has its Service")
    service = await elastic.client.get(SERVICES, "j-worker-1", namespace=elastic.namespace)
    labels = (await elastic.pod("j-worker-1"))["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert (labels["group-name"], labels["job-name"]) == ("elastic.pytorch.org", "j")
    assert (labels["replica-type"], labels["replica-index"]) == ("worker", "1")
    status = await elastic.until_phase("Succeeded")
    assert {one["type"]: one["status"] for one in status["conditions"]}["Created"] == "True"
    assert status["replicaStatuses"]["Worker"]["succeeded"] == 3
    assert await elastic.workers(phase="Succeeded") == names, "they stay for their logs"


@pytest.mark.case("acceptance-7")
async def test_a_minimum_edited_beyond_the_cluster_waits_and_what_runs_goes_on(elastic: Elastic) -> None:
    await elastic.submit(OBEDIENT, 1, 3)
    await elastic.until_running(3)
    any_start = {"replicaSpecs": {"Worker": {"replicas": None}}}
    await elastic.edit({"spec": {"minReplicas": 50, "maxReplicas": 60, **any_start}})

    async def waits() -> bool:
        return "its new minimum of 50 waits: " in (await elastic.status())["scale"]["reason"]

    await elastic.until(waits, "its reason says so")
    assert (await elastic.until_running(3), await elastic.workers(phase="Pending")) == (
        ["j-worker-0", "j-worker-1", "j-worker-2"],
        [],
    )
    assert (await elastic.status())["scale"]["minimum"] == 1
    await elastic.edit({"spec": {"minReplicas": 4, "maxReplicas": 4}})
    await elastic.until_running(4)


@pytest.mark.case("acceptance-10")
async def test_a_job_uses_idle_room_is_scaled_by_hand_and_edited(elastic: Elastic) -> None:
    await elastic.submit(OBEDIENT, 1, 4)
    await elastic.until_running(4)
    status = await elastic.until_phase("Running")
    assert status["scale"]["target"] == 4
    assert status["scale"]["reason"]
    await elastic.scale(2)
    await elastic.edit({"metadata": {"annotations": {"edl.dev/pin": "true"}}})  # earlier it would pin the one asked for
    assert await elastic.until_running(2) == ["j-worker-0", "j-worker-1"], "of the same age the highest leave"
    scale = await elastic.client.get(ELASTIC_JOBS, "j", namespace=elastic.namespace, subresource="scale")
    assert scale["spec"]["replicas"] == 2
    with pytest.raises(ApiError, match="maxReplicas"):
        await elastic.scale(9)
    await elastic.scale(3)
    await elastic.until_running(3)
    await elastic.edit({"metadata": {"annotations": {"edl.dev/pin": None}}, "spec": {"maxReplicas": 5}})
    await elastic.until_running(5)
    assert (await elastic.status())["replicaStatuses"]["Worker"].get("failed", 0) == 0


async def test_a_size_that_changes_again_and_again_ends_where_it_should(elastic: Elastic) -> None:
    await elastic.submit(OBEDIENT, 1, 4, notes={"edl.dev/pin": "true"})
    for size in (2, 4, 1, 3):
        await elastic.scale(size)
    await elastic.until_running(3)
    await elastic.until_phase("Running")
    status = await elastic.status()
    assert (status["scale"]["current"], status["scale"]["target"]) == (3, 3)
    assert status["replicaStatuses"]["Worker"].get("failed", 0) == 0


async def test_two_of_three_fail_as_in_the_design(elastic: Elastic) -> None:
    script = 'test "$EDL_INDEX" = 2 && sleep 100; echo "worker $EDL_INDEX: no such file"; exit 1'
    await elastic.create(_three(elastic, script))
    status = await elastic.until_phase("Failed")
    await elastic.until(lambda: _counts(elastic, active=1, failed=2), "the third, which may start last, runs on")
    failed = await elastic.until_condition("Failed")
    assert failed["message"] == "ElasticJob j is failed because 2 Worker replica(s) failed."
    assert "no such file" in status["rootCause"]["message"]
    assert await elastic.workers(phase="Failed") == ["j-worker-0", "j-worker-1"], "no exit code below 128 is retried"


async def _counts(elastic: Elastic, **wanted: int) -> bool:
    found = (await elastic.status())["replicaStatuses"]["Worker"]
    return {name: found.get(name, 0) for name in wanted} == wanted


def _three(elastic: Elastic, script: str) -> Data:
    manifest = elastic.manifest(script, 2, 3, policy="ExitCode")
    manifest["spec"]["replicaSpecs"]["Worker"]["replicas"] = 3
    return manifest


async def test_who_is_killed_is_replaced_under_its_index(elastic: Elastic) -> None:
    await elastic.submit('test "$EDL_ATTEMPT" = 0 && test "$EDL_INDEX" = 1 && sleep 0.5 && exit 137; ' + OBEDIENT, 2)
    assert await elastic.until_running(2) is not None
    await elastic.until(lambda: _runs(elastic, "j-worker-1-1"), "worker 1 has a successor")
    await elastic.until_phase("Running")
    service = await elastic.client.get(SERVICES, "j-worker-1", namespace=elastic.namespace)
    labels = (await elastic.pod("j-worker-1-1"))["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items(), "its Service leads to the successor"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "j-worker-0"}}
    await elastic.client.create(PODS, eviction, name="j-worker-0", namespace=elastic.namespace, subresource="eviction")
    await elastic.until(lambda: _runs(elastic, "j-worker-0-1"), "who is evicted has one, too")
    assert (await elastic.status())["replicaStatuses"]["Worker"]["failed"] == 1, "an eviction is no failure"


async def _runs(elastic: Elastic, name: str) -> bool:
    return name in await elastic.workers()


async def test_an_image_that_crashes_at_import_fails_with_its_last_line(elastic: Elastic) -> None:
    await elastic.submit("echo ModuleNotFoundError: torch; exit 1", 1, runPolicy={"backoffLimit": 1})
    status = await elastic.until_phase("Failed")
    assert status["reason"].endswith("exit code 1: ModuleNotFoundError: torch")
    failed = await elastic.until_condition("Failed")
    assert failed["message"] == "Job j has failed because it has reached the specified backoff limit"


async def test_a_worker_that_hangs_is_replaced_and_the_job_says_so(elastic: Elastic) -> None:
    report = textwrap.dedent("""
        import os, signal, ssl, sys, time, urllib.request
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        job = f"{os.environ['EDL_JOB_NAMESPACE']}/{os.environ['EDL_JOB_NAME']}"
        url = f"{os.environ['EDL_SERVICE_URL']}/v1/jobs/{job}/progress"
        tls = ssl.create_default_context(cadata=os.environ["EDL_SERVICE_CA"])
        head = {"Authorization": "Bearer " + os.environ["EDL_JOB_TOKEN"], "Content-Type": "application/json"}
        hangs = os.environ["EDL_INDEX"] + os.environ["EDL_ATTEMPT"] == "00"
        for step in range(2 if hangs else 10**6):
            body = '{"done": %d, "pod": "%s"}' % (step, os.environ["EDL_POD_NAME"])
            urllib.request.urlopen(urllib.request.Request(url, body.encode(), head), context=tls).close()
            time.sleep(0.2)
        time.sleep(1000)
    """)
    command = {"image": elastic.story.backend.python, "command": ["python", "-c", report]}
    await elastic.submit("", 2, container=command, notes={"edl.dev/stall-timeout": "4s"})
    await elastic.until(lambda: _runs(elastic, "j-worker-0-1"), "the worker that hangs has a successor")
    events = (await elastic.client.list(EVENTS, namespace=elastic.namespace)).items
    stalled = [event for event in events if event["reason"] == "WorkerStalled"]
    assert "j-worker-0 made no progress" in stalled[0]["note"]
    assert "j-worker-1" in await elastic.workers(), "who works on is left alone"


async def test_specs_that_cannot_be_are_refused_and_say_why(elastic: Elastic) -> None:
    good = elastic.manifest(OBEDIENT, 2, 3)
    bad: dict[str, Data] = {
        "minReplicas": {"minReplicas": 0},
        "maxReplicas": {"maxReplicas": 1},
        "Worker": {"replicaSpecs": {}},
    }
    for field, change in bad.items():
        refused = await _refused(elastic, dict(good, spec=good["spec"] | change))
        assert field in refused, refused
    twins = json.loads(json.dumps(good))
    pod = twins["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
    pod["containers"] = [dict(pod["containers"][0], ports=[{"containerPort": 1, "hostPort": 1}] * 2)]
    assert "hostPort" in await _refused(elastic, twins)
    pod["containers"] = [dict(pod["containers"][0], ports=[])] * 2
    assert "two containers" in await _refused(elastic, twins)
    assert await elastic.workers() == []


async def _refused(elastic: Elastic, manifest: Data) -> str:
    """By the API server if it can tell, else by the operator."""
    try:
        await elastic.client.create(ELASTIC_JOBS, manifest, namespace=elastic.namespace)
    except ApiError as error:
        return str(error)
    said = await elastic.until_condition("Valid", "False")
    await elastic.story.delete(ELASTIC_JOBS, "j")
    return str(said["message"])


async def test_what_belongs_to_others_is_left_alone_and_what_is_ours_goes(elastic: Elastic) -> None:
    container = {"name": "c", "image": elastic.story.backend.shell, "command": ["sh", "-c", OBEDIENT]}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    theirs = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j-worker-0"}, "spec": spec}
    await elastic.story.create(PODS, theirs)
    side = [{"name": "side", "image": container["image"], "command": ["sh", "-c", OBEDIENT]}]
    manifest = elastic.manifest(OBEDIENT, 2)
    manifest["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"] += side
    await elastic.create(manifest)
    assert await elastic.until_running(2) == ["j-worker-0-1", "j-worker-1"]
    worker, beside = (await elastic.pod("j-worker-1"))["spec"]["containers"]
    assert worker["env"]
    assert worker["envFrom"]
    assert not {"env", "envFrom"} & set(beside), "the first container is the worker"
    await elastic.story.delete(ELASTIC_JOBS, "j")

    async def only_theirs() -> bool:
        pods = (await elastic.client.list(PODS, namespace=elastic.namespace)).items
        return [one["metadata"]["name"] for one in pods] == ["j-worker-0"] and not await elastic.services()

    await elastic.until(only_theirs, "everything of the job is gone, and nothing else")


async def test_a_job_made_anew_does_not_wait_for_the_workers_of_its_predecessor(elastic: Elastic) -> None:
    deaf = "trap '' TERM; while :; do sleep 0.05; done"
    first = await elastic.submit(deaf, 2)
    await elastic.until_phase("Running")
    await elastic.story.delete(ELASTIC_JOBS, "j", propagation="Background")
    second = await elastic.submit(OBEDIENT, 2)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    await elastic.until_phase("Running")

    async def served() -> bool:
        services = (await elastic.client.list(SERVICES, namespace=elastic.namespace)).items
        owners = [one["metadata"]["ownerReferences"][0]["uid"] for one in services]
        return owners == [second["metadata"]["uid"]] * 2

    await elastic.until(served, "the Services are those of the new job")


async def test_two_kinds_may_have_a_job_of_one_name(elastic: Elastic) -> None:
    await elastic.submit("sleep 1", 1)
    await elastic.story.submit("j", script="sleep 1")
    await elastic.until_phase("Succeeded")
    await elastic.story.until_phase("succeeded")
    assert await elastic.workers(phase="Succeeded") == ["j-worker-0"]
    assert await elastic.story.pods(phase="Succeeded") == ["j-trainer-0"]


async def test_the_operator_may_die_at_any_time(elastic: Elastic) -> None:
    await elastic.submit(OBEDIENT, 2, 3)
    before = await elastic.until_running(3)
    await elastic.story.backend.kill_operator()
    await elastic.submit("sleep 0.2", 1, name="next")
    await elastic.until_phase("Succeeded", "next")
    assert await elastic.workers() == before, "a change of leaders moves nobody"
    await elastic.story.delete(PODS, "j-worker-1")
    await elastic.until(lambda: _runs(elastic, "j-worker-1-1"), "the new operator goes on")


async def test_a_job_that_is_suspended_frees_its_pods_and_comes_back_as_another_attempt(elastic: Elastic) -> None:
    await elastic.submit(OBEDIENT, 2)
    await elastic.until_phase("Running")
    await elastic.edit({"spec": {"suspend": True}})
    await elastic.until_running(0)
    await elastic.edit({"spec": {"suspend": False}})
    assert await elastic.until_running(2) == ["j-worker-0-1", "j-worker-1-1"]
    env = {one["name"]: one.get("value") for one in (await elastic.pod("j-worker-0-1"))["spec"]["containers"][0]["env"]}
    assert env["PET_RDZV_ID"] == f"{(await elastic.job())['metadata']['uid']}-1"


async def test_a_job_gives_way_to_a_production_training_job_and_takes_the_room_back(elastic: Elastic) -> None:
    """Eight cores, of which growth may use 97 %: seven workers, until four trainers of higher rank come."""
    await elastic.submit(OBEDIENT, 2, 8)
    await elastic.until_running(7)
    await elastic.until_phase("Running")
    trainer = {"min-instance": 4, "max-instance": 4, "resources": {"requests": {"cpu": "1"}}}
    await elastic.story.submit("urgent", script="sleep 3", trainer=trainer, priority="Production")
    await elastic.story.until_running(4, name="urgent")
    status = await elastic.status()
    assert any("makes room" in change["reason"] for change in status["scale"]["history"]), status["scale"]
    await elastic.story.until_phase("succeeded", "urgent")
    await elastic.story.delete(TRAINING_JOBS, "urgent")
    await elastic.until_running(7)
    assert (await elastic.status())["replicaStatuses"]["Worker"].get("failed", 0) == 0
