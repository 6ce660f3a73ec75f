"""Stories of a TrainingJob, told through the Kubernetes API: what a user does, and what comes of it."""

import asyncio
from typing import Any

import pytest

from edl.operator.resources import JOBS, NODES, PODS, REPLICA_SETS, SERVICES, TRAINING_JOBS
from tests.stories.story import Data, Story

OBEDIENT = "trap 'exit 143' TERM; while :; do sleep 0.05; done"
ELASTIC: Data = {"master": {"command": ["sh", "-c", OBEDIENT]}, "freezing_window": "0s"}


def trainer(least: int, most: int, **more: Any) -> Data:
    return {"min-instance": least, "max-instance": most, "resources": {"requests": {"cpu": "1"}}} | more


async def test_a_job_runs_and_succeeds(story: Story) -> None:
    await story.submit(script="sleep 1", trainer={"min-instance": 2})
    await story.until_phase("running")
    await story.until_phase("succeeded")
    assert await story.pods(phase="Succeeded") == ["j-trainer-0", "j-trainer-1"], "they stay for their logs"
    await story.until_complete()
    job = await story.get(JOBS, "j-trainer")
    assert job is not None
    assert job["status"]["succeeded"] == 2


async def test_all_roles_come_up_find_each_other_and_are_released_at_the_end(story: Story) -> None:
    server = {"command": ["sh", "-c", OBEDIENT]}
    told = 'test -n "$MASTER" && test "$PSERVERS" = 2 && test "$EDL_ROLE" = trainer && sleep 1'
    await story.submit(script=told, master=server, pserver=server, trainer={"min-instance": 2})
    await story.until_phase("running")
    assert len(await story.pods("master")) == 1
    assert len(await story.pods("pserver")) == 2
    status = await story.until_phase("succeeded")
    assert status["reason"] == "all 2 trainers finished"
    await story.until_running(0, "master")
    await story.until_running(0, "pserver")


async def test_a_job_grows_into_free_room_and_gives_way_to_an_online_service(story: Story) -> None:
    """Eight cores on two nodes, of which growth may use 97 %. The service fits where three trainers were."""
    await story.submit(script=OBEDIENT, trainer=trainer(2, 9), **ELASTIC)
    await story.until_running(7)
    await story.until_phase("running")
    web = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [_web("1500m")]}}
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


def _web(cpu: str) -> Data:
    command = ["sh", "-c", OBEDIENT]
    return {"name": "web", "image": "any", "command": command, "resources": {"requests": {"cpu": cpu}}}


async def _ready(story: Story, name: str, count: int) -> bool:
    found = await story.get(REPLICA_SETS, name)
    return found is not None and found.get("status", {}).get("readyReplicas", 0) == count


async def test_a_trainer_killed_by_itself_is_replaced_in_a_tolerant_job(story: Story) -> None:
    script = f"test $EDL_INDEX$EDL_ATTEMPT = 10 && kill -9 $$; {OBEDIENT}"
    await story.submit(script=script, trainer={"min-instance": 2})
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
        ("echo reading; echo 'no such data' >&2; exit 3", 3, "no such data"),
        ("kill -9 $$", 137, "exit code 137"),
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


async def test_a_tolerant_job_gives_up_after_six_failures_of_one_slot(story: Story) -> None:
    await story.submit(script="exit 1")
    status = await story.until_phase("failed")
    assert status["root_cause"]["pod"] == "j-trainer-0-5"
    await story.until(lambda: _only(story, "j-trainer-0-5"), "one dead pod per slot is kept")


async def _only(story: Story, name: str) -> bool:
    return await story.pods(phase="Failed") == [name]


async def test_an_evicted_trainer_is_no_failure(story: Story) -> None:
    await story.submit(script=OBEDIENT, fault_tolerant=False, trainer={"min-instance": 2})
    await story.until_phase("running")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "j-trainer-0"}}
    await story.client.create(PODS, eviction, name="j-trainer-0", namespace=story.namespace, subresource="eviction")
    await story.until(lambda: _runs(story, "j-trainer-0-1"), "it is replaced")
    assert (await story.status())["phase"] == "running"


async def test_a_trainer_that_does_not_listen_is_stopped_all_the_same(story: Story) -> None:
    template = {"spec": {"terminationGracePeriodSeconds": 1}}
    deaf = "trap '' TERM; while :; do sleep 0.05; done"
    await story.submit(script=deaf, trainer=trainer(1, 3, template=template), **ELASTIC)
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
    await story.submit("big", script=OBEDIENT, trainer=trainer(9, 9))
    await story.submit("small", script="sleep 1")
    await story.until_phase("succeeded", "small")
    status = await story.until_phase("creating", "big")
    queued = next(one for one in status["conditions"] if one["type"] == "Queued")
    assert (queued["status"], await story.pods(name="big")) == ("True", [])
    assert "CPU" in queued["message"]


async def test_the_operator_may_die_at_any_time(story: Story) -> None:
    await story.submit(script=OBEDIENT, trainer=trainer(2, 2), **ELASTIC)
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
    await story.submit(script=OBEDIENT, fault_tolerant=False, trainer=trainer(9, 9))
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
    await story.client.delete(NODES, "doomed")  # it will not come back: now Kubernetes forgets what ran there


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
