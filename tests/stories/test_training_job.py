"""Stories of a TrainingJob, told through the Kubernetes API: what a user does, and what comes of it.

All of them on both backends: processes on the embedded cluster, containers on a real one with operators in pods.
"""

import asyncio

import pytest

from edl.kube.rest.errors import ApiError
from edl.operator.resources import JOBS, PODS, REPLICA_SETS, SERVICES, TRAINING_JOBS
from tests.stories.story import OBEDIENT, Data, Story

pytestmark = pytest.mark.timeout(240)
ELASTIC: Data = {"master": {"command": ["sh", "-c", OBEDIENT]}, "freezing_window": "0s"}


@pytest.fixture
def story(story_on_both: Story) -> Story:
    return story_on_both


async def test_a_job_runs_and_succeeds(story: Story) -> None:
    await story.submit(script="sleep 3", trainer={"min-instance": 2})
    await story.until_phase("running")
    await story.until_phase("succeeded")
    await story.until(lambda: _ended(story, "j-trainer-0", "j-trainer-1"), "they stay for their logs")
    await story.until_complete()
    job = await story.get(JOBS, "j-trainer")
    assert job is not None
    assert job["status"]["succeeded"] == 2


async def _ended(story: Story, *names: str) -> bool:
    return await story.pods(phase="Succeeded") == [*names]


async def test_all_roles_come_up_find_each_other_and_are_released_at_the_end(story: Story) -> None:
    server = {"command": ["sh", "-c", OBEDIENT]}
    reported = 'test -n "$MASTER" && test "$PSERVERS" = 2 && test "$EDL_ROLE" = trainer && sleep 3'
    await story.submit(script=reported, master=server, pserver=server, trainer={"min-instance": 2})
    await story.until_phase("running")
    assert len(await story.pods("master")) == 1
    assert len(await story.pods("pserver")) == 2
    status = await story.until_phase("succeeded")
    assert status["reason"] == "all 2 trainers finished"
    await story.until_running(0, "master")
    await story.until_running(0, "pserver")


async def test_a_job_grows_into_free_room_and_gives_way_to_an_online_service(story: Story) -> None:
    """Eight cores on two nodes, of which growth may use 97 %. The service fits where three trainers were."""
    await story.submit(script=OBEDIENT, trainer=story.trainer(2, 9), **ELASTIC)
    await story.until_running(7)
    await story.until_phase("running")
    web = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [_web(story, 1.5)]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": web}
    await story.create(
        REPLICA_SETS, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}
    )
    await story.until(lambda: _ready(story, "web", 2), "the online service gets its room")
    await story.until_running(5)
    await story.until_phase("running")
    history = (await story.status())["scale_status"]["history"]
    assert any("makes room" in change["reason"] for change in history), history
    await story.delete(REPLICA_SETS, "web")
    await story.until_running(7)
    assert (await story.status())["replica_statuses"][-1].get("failed", 0) == 0, "who leaves has not failed"


def _web(story: Story, cores: float) -> Data:
    requests = {"cpu": story.cpu(cores)}
    command = ["sh", "-c", OBEDIENT]
    return {"name": "web", "image": story.backend.shell, "command": command, "resources": {"requests": requests}}


async def _ready(story: Story, name: str, count: int) -> bool:
    found = await story.get(REPLICA_SETS, name)
    return found is not None and found.get("status", {}).get("readyReplicas", 0) == count


async def test_a_trainer_that_is_killed_is_replaced_in_a_tolerant_job(story: Story) -> None:
    await story.submit(script=OBEDIENT, trainer={"min-instance": 2})
    await story.until_phase("running")
    await story.kill("j-trainer-1")
    await story.until(lambda: _runs(story, "j-trainer-1-1"), "slot 1 has its second pod")
    await story.until_phase("running")
    status = await story.until(lambda: _failed(story, 1), "the failure is counted")
    assert status["phase"] == "running"
    dead = await story.get(PODS, "j-trainer-1")
    assert dead is not None, "it is kept for its log"
    assert dead["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def _runs(story: Story, name: str) -> bool:
    return name in await story.pods()


async def _failed(story: Story, count: int) -> Data | None:
    status = await story.status()
    return status if status["replica_statuses"][-1].get("failed", 0) == count else None


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        # Both on one stream: Kubernetes puts the lines of two in the log in any order.
        ("{ echo reading; echo 'no such data'; } >&2; exit 3", 3, "no such data"),
        ("sh -c 'kill -9 $$'; exit $?", 137, "exit code 137"),
        ("no-such-command", 127, "not found"),
    ],
    ids=["exit code", "kill -9", "no such command"],
)
async def test_the_first_failure_fails_a_job_that_tolerates_none(
    story: Story, script: str, code: int, words: str
) -> None:
    await story.submit(
        script=f"test $EDL_INDEX = 1 || {{ {OBEDIENT}; }}; {script}", fault_tolerant=False, trainer={"min-instance": 2}
    )
    status = await story.until_phase("failed")
    assert (status["root_cause"]["pod"], status["root_cause"]["exit_code"]) == ("j-trainer-1", code)
    assert words in status["reason"]
    await story.until_running(0)
    await story.until_complete("Failed")


async def test_a_script_that_cannot_work_is_given_up_after_two_rounds(story: Story) -> None:
    await story.submit(script="echo ModuleNotFoundError: nope; exit 1", trainer={"min-instance": 2})
    status = await story.until_phase("failed")
    assert status["root_cause"]["message"].strip() == "ModuleNotFoundError: nope"
    assert status["conditions"][-1]["reason"] == "FailedFast"


async def test_a_tolerant_job_gives_up_after_six_failures_of_one_slot(story: Story) -> None:
    """One with patience: its script fails alike every time, and at once."""
    await story.submit(script="exit 1", annotations={"edl.dev/fail-fast": "false"})
    status = await story.until_phase("failed")
    assert status["root_cause"]["pod"] == "j-trainer-0-5"
    await story.until(lambda: _only(story, "j-trainer-0-5"), "one dead pod per slot is kept")


async def _only(story: Story, name: str) -> bool:
    return await story.pods(phase="Failed") == [name]


@pytest.mark.case("acceptance-6")
async def test_a_server_that_crashes_again_and_again_fails_the_job(story: Story) -> None:
    """Its node starts it again and again; the job ends with what the server said."""
    server = {"command": ["sh", "-c", "echo no such model >&2; exit 9"], "min-instance": 1}
    master = {"command": ["sh", "-c", OBEDIENT]}
    await story.submit(script=OBEDIENT, master=master, pserver=server, backoff_limit=2)
    status = await story.until_phase("failed")
    assert (status["root_cause"]["exit_code"], status["root_cause"]["message"].strip()) == (9, "no such model")
    assert status["reason"].startswith("pserver j-pserver-")
    for role in ("trainer", "master", "pserver"):
        await story.until_running(0, role)


async def test_an_evicted_trainer_is_no_failure(story: Story) -> None:
    await story.submit(script=OBEDIENT, fault_tolerant=False, trainer={"min-instance": 2})
    await story.until_phase("running")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "j-trainer-0"}}
    await story.client.create(PODS, eviction, name="j-trainer-0", namespace=story.namespace, subresource="eviction")
    await story.until(lambda: _runs(story, "j-trainer-0-1"), "it is replaced")
    assert (await story.status())["phase"] == "running"


async def test_a_trainer_that_does_not_listen_is_stopped_all_the_same(story: Story) -> None:
    template = {"spec": {"terminationGracePeriodSeconds": 1}}
    deaf = "trap '' TERM; while :; do sleep 0.2; done"
    await story.submit(script=deaf, trainer=story.trainer(1, 3, template=template), **ELASTIC)
    await story.until_running(3)
    await story.edit({"spec": {"trainer": {"max-instance": 1}}})
    await story.until_running(1)
    await story.until_phase("running")
    assert (await story.status())["replica_statuses"][-1].get("failed", 0) == 0


async def test_deleting_a_job_deletes_exactly_what_it_owns(story: Story) -> None:
    server = {"command": ["sh", "-c", OBEDIENT]}
    await story.submit("mine", script=OBEDIENT, master=server, pserver=server)
    await story.submit("other", script=OBEDIENT)
    await story.until_phase("running", "mine")
    await story.until_phase("running", "other")
    await story.delete(TRAINING_JOBS, "mine")

    async def only_other() -> bool:
        found = await story.everything()
        return not any(name.startswith("mine") for names in found.values() for name in names)

    await story.until(only_other, "everything of it is gone")
    assert await story.get(SERVICES, "mine-trainer") is None
    assert await story.pods(name="other") == ["other-trainer-0"]


async def test_a_job_deleted_and_made_anew_within_a_second(story: Story) -> None:
    await story.submit(script=OBEDIENT, trainer={"min-instance": 2})
    await story.until_phase("running")
    first = (await story.job())["metadata"]["uid"]
    await story.delete(TRAINING_JOBS, "j")
    await story.submit(script=OBEDIENT, trainer={"min-instance": 1})
    await story.until_phase("running")
    await story.until_running(1)
    assert (await story.job())["metadata"]["uid"] != first


async def test_suspending_frees_the_pods_and_resuming_brings_them_back(story: Story) -> None:
    await story.submit(script=OBEDIENT, trainer={"min-instance": 2})
    await story.until_phase("running")
    await story.edit({"spec": {"suspend": True}})
    await story.until_running(0)
    await story.edit({"spec": {"suspend": False}})
    assert await story.until_running(2) == ["j-trainer-0-1", "j-trainer-1-1"]


async def test_a_job_that_does_not_fit_waits_and_says_why(story: Story) -> None:
    await story.submit("big", script=OBEDIENT, trainer=story.trainer(9, 9))
    await story.submit("small", script="sleep 1")
    await story.until_phase("succeeded", "small")
    status = await story.until_phase("creating", "big")
    queued = next(one for one in status["conditions"] if one["type"] == "Queued")
    assert (queued["status"], await story.pods(name="big")) == ("True", [])
    assert "CPU" in queued["message"]


@pytest.mark.case("acceptance-7")
async def test_edits_of_sizes_and_templates_are_honoured(story: Story) -> None:
    await story.submit(script=OBEDIENT, trainer=story.trainer(1, 1), **ELASTIC)
    await story.until_phase("running")
    template = {"metadata": {"annotations": {"edited": "yes"}}}
    await story.edit({"spec": {"trainer": {"max-instance": 3, "template": template}}})
    await story.until_running(3)
    made = {name: await story.get(PODS, name) for name in ("j-trainer-0", "j-trainer-2")}
    marks = [(pod or {})["metadata"].get("annotations", {}).get("edited") for pod in made.values()]
    assert marks == [None, "yes"], "only new pods have it"
    await story.edit({"spec": {"trainer": {"max-instance": 2}}})
    await story.until_running(2)
    await story.edit({"metadata": {"annotations": {"edl.dev/pin": "true"}}, "spec": {"trainer": {"max-instance": 4}}})
    scale = {"spec": {"replicas": 3}}
    await story.client.patch(TRAINING_JOBS, "j", scale, namespace=story.namespace, subresource="scale")
    await story.until_running(3)
    await story.until_phase("running")
    assert (await story.status())["scale_status"]["target"] == 3, "as kubectl scale said"
    with pytest.raises(ApiError, match="min-instance"):
        await story.edit({"spec": {"trainer": {"min-instance": 5}}})
    beyond = {"min-instance": 50, "max-instance": 60, "replicas": None}
    await story.edit({"metadata": {"annotations": {"edl.dev/pin": None}}, "spec": {"trainer": beyond}})
    await story.until(lambda: _says(story, "new minimum of 50 waits"), "a minimum beyond the cluster waits")
    assert (len(await story.pods()), await story.pods(phase="Pending")) == (3, []), "what runs goes on"


async def _says(story: Story, words: str) -> bool:
    return words in (await story.status())["scale_status"]["reason"]


async def test_a_bad_job_is_refused_and_others_never_notice(story: Story) -> None:
    await story.submit("good", script=OBEDIENT)
    await story.until_phase("running", "good")
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}

    async def refused() -> str:
        """An API server that cannot ask an operator, or does not trust it yet, takes the job."""
        try:
            await story.submit("bad", script="true", trainer={"resources": resources})
        except ApiError as error:
            return str(error)
        await story.delete(TRAINING_JOBS, "bad")
        return ""

    words = await story.until(refused, "the job is refused")
    assert "spec.trainer.resources.requests.cpu: " in words
    assert "2 is more than the limit 1" in words
    assert await story.pods(name="good") == ["good-trainer-0"]
    assert (await story.status("good"))["phase"] == "running"


async def test_an_image_that_does_not_exist_is_named_and_others_run(story_in_pods: Story) -> None:
    """Not on the embedded cluster, where an image is a name and nothing is fetched."""
    story = story_in_pods
    await story.submit("lost", script="true", image="localhost/no/such-image:1")
    await story.submit("good", script="true")
    await story.until_phase("succeeded", "good")

    async def reported() -> bool:
        reason = str((await story.status("lost")).get("reason"))
        return "ImagePull" in reason and "localhost/no/such-image:1" in reason

    await story.until(reported, "the job says which image is missing")
    assert (await story.status("lost"))["phase"] == "creating"


async def test_the_operator_may_die_at_any_time(story: Story) -> None:
    await story.submit(script=OBEDIENT, trainer=story.trainer(2, 2), **ELASTIC)
    await story.until_phase("running")
    before = await story.pods()
    await story.backend.kill_operator()
    await story.submit("next", script="sleep 0.2")
    await story.until_phase("succeeded", "next")
    assert await story.pods() == before, "a change of leaders moves nobody"
    await story.edit({"spec": {"trainer": {"entrypoint": "true"}}})
    for name in before:
        await story.delete(PODS, name)
    await story.until_phase("succeeded")


async def test_a_node_that_is_lost_takes_no_job_with_it(story: Story) -> None:
    """Nine trainers need all three nodes: of what is lost one waits, until there is another node for it."""
    await story.backend.add_node("doomed", "2")
    await story.submit(script=OBEDIENT, fault_tolerant=False, trainer=story.trainer(9, 9))
    await story.until_running(9)
    await story.until_phase("running")
    await story.backend.lose_node("doomed")
    status = await story.until(lambda: _below(story, 9), "its loss is noticed")
    assert status["phase"] == "running", "a lost trainer is no failure"
    await story.backend.add_node("spare", "2")
    await story.until(lambda: _active(story, 9), "the new node takes its place")
    status = await story.status()
    assert status["phase"] == "running"
    assert status["replica_statuses"][-1].get("failed", 0) == 0
    await story.backend.forget_node("doomed")  # it will not come back: now Kubernetes forgets what ran there


async def _below(story: Story, size: int) -> Data | None:
    status = await story.status()
    return status if status["replica_statuses"][-1].get("active", 0) < size else None


async def _active(story: Story, size: int) -> bool:
    return bool((await story.status())["replica_statuses"][-1].get("active", 0) == size)


async def test_many_small_jobs_at_once(story: Story) -> None:
    names = [f"j{number}" for number in range(12)]
    await asyncio.gather(*(story.submit(name, script="sleep 0.5") for name in names))
    for name in names:
        await story.until_phase("succeeded", name)


async def test_an_entrypoint_that_ends_at_once_has_succeeded(story: Story) -> None:
    await story.submit(script="true", trainer={"min-instance": 2})
    status = await story.until_phase("succeeded")
    assert status["reason"] == "all 2 trainers finished"
    await story.until_complete()
