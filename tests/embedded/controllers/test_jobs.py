"""Jobs: completions, failures, deadlines, suspension, and that each pod counts once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.embedded.cluster_fixture import PODS, eventually
from tests.embedded.controllers.stage import JOBS, Stage, stage, template


@pytest.fixture
async def play() -> AsyncIterator[Stage]:
    async with stage("job", "garbage-collector", job_backoff=0.05) as made:
        yield made


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"template": template(restartPolicy="Never"), **spec}}


def condition(one: Any, kind: str) -> Any:
    found = [
        one for one in one.get("status", {}).get("conditions", []) if one["type"] == kind and one["status"] == "True"
    ]
    return found[0] if found else None


async def running(play: Stage, count: int) -> list[str]:
    names: list[str] = []

    async def look() -> bool:
        nonlocal names
        pods = await play.pods()
        names = [one["metadata"]["name"] for one in pods if one.get("status", {}).get("phase") == "Running"]
        return len(names) == count

    await eventually(look)
    return names


async def test_a_job_runs_to_completion(play: Stage) -> None:
    await play.create(JOBS, job(completions=3, parallelism=2))
    names = await running(play, 2)
    await play.until(JOBS, "j", lambda one: one["status"].get("ready") == 2)
    await play.end(names[0])
    names = await running(play, 2)
    for name in names:
        await play.end(name)
    done = await play.until(JOBS, "j", lambda one: condition(one, "Complete"))
    assert condition(done, "SuccessCriteriaMet")["reason"] == "CompletionsReached"
    assert (done["status"]["succeeded"], done["status"].get("failed", 0), done["status"].get("active", 0)) == (3, 0, 0)
    assert done["status"]["completionTime"] >= done["status"]["startTime"]
    pods = await play.pods()
    assert len(pods) == 3
    assert all("finalizers" not in one["metadata"] for one in pods)
    assert pods[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"


async def test_a_work_queue_job_adds_nothing_after_the_first_success(play: Stage) -> None:
    await play.create(JOBS, job(parallelism=2))
    first, second = await running(play, 2)
    await play.end(first)
    await play.until(JOBS, "j", lambda one: one["status"].get("succeeded") == 1)
    assert len(await running(play, 1)) == 1
    await play.end(second)
    await play.until(JOBS, "j", lambda one: condition(one, "Complete"))
    assert len(await play.names()) == 2


async def test_failures_are_retried_up_to_the_limit(play: Stage) -> None:
    await play.create(JOBS, job(backoffLimit=2))
    for _ in range(3):
        await play.end((await running(play, 1))[0], 1)
    failed = await play.until(JOBS, "j", lambda one: condition(one, "Failed"))
    assert condition(failed, "Failed")["reason"] == "BackoffLimitExceeded"
    assert failed["status"]["failed"] == 3
    assert "completionTime" not in failed["status"]


async def test_a_counted_pod_stays_counted_when_it_is_deleted(play: Stage) -> None:
    await play.create(JOBS, job(completions=2, parallelism=1))
    first = (await running(play, 1))[0]
    await play.end(first)
    await play.until(JOBS, "j", lambda one: one["status"].get("succeeded") == 1)
    await play.client.delete(PODS, first, namespace="default", grace=0)
    await play.gone(PODS, first)
    await play.end((await running(play, 1))[0])
    done = await play.until(JOBS, "j", lambda one: condition(one, "Complete"))
    assert done["status"]["succeeded"] == 2


async def test_an_indexed_job_completes_every_index_once(play: Stage) -> None:
    await play.create(JOBS, job(completions=3, parallelism=2, completionMode="Indexed"))
    await running(play, 2)
    pods = {
        one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: one for one in await play.pods()
    }
    assert sorted(pods) == ["0", "1"]
    env = pods["1"]["spec"]["containers"][0]["env"]
    assert {"name": "JOB_COMPLETION_INDEX", "value": "1"} in env
    assert pods["0"]["spec"]["hostname"] == "j-0"
    await play.end(pods["1"]["metadata"]["name"], 1)
    await play.end(pods["0"]["metadata"]["name"])
    for name in await running(play, 2):
        await play.end(name)
    done = await play.until(JOBS, "j", lambda one: condition(one, "Complete"))
    assert (done["status"]["completedIndexes"], done["status"]["failed"]) == ("0-2", 1)


async def test_a_job_may_not_run_longer_than_it_says(play: Stage) -> None:
    await play.create(JOBS, job(activeDeadlineSeconds=5))  # long enough to be seen running on a busy machine
    await running(play, 1)
    failed = await play.until(JOBS, "j", lambda one: condition(one, "Failed"))
    assert condition(failed, "Failed")["reason"] == "DeadlineExceeded"
    await running(play, 0)


async def test_suspend_and_resume(play: Stage) -> None:
    await play.create(JOBS, job(suspend=True))
    found = await play.until(JOBS, "j", lambda one: condition(one, "Suspended"))
    assert "startTime" not in found["status"]
    assert await play.names() == []
    await play.client.patch(JOBS, "j", {"spec": {"suspend": False}}, namespace="default")
    await running(play, 1)
    await play.client.patch(JOBS, "j", {"spec": {"suspend": True}}, namespace="default")
    await running(play, 0)
    await play.until(JOBS, "j", lambda one: condition(one, "Suspended") and "startTime" not in one["status"])


async def test_parallelism_can_be_changed(play: Stage) -> None:
    await play.create(JOBS, job(completions=5, parallelism=1))
    await running(play, 1)
    await play.client.patch(JOBS, "j", {"spec": {"parallelism": 3}}, namespace="default")
    await running(play, 3)
    await play.client.patch(JOBS, "j", {"spec": {"parallelism": 1}}, namespace="default")
    await running(play, 1)


async def test_a_finished_job_goes_after_its_time_to_live(play: Stage) -> None:
    await play.create(JOBS, job(ttlSecondsAfterFinished=3))
    await play.end((await running(play, 1))[0])
    await play.until(JOBS, "j", lambda one: condition(one, "Complete"))
    await play.gone(JOBS, "j")
    assert await play.names() == []


async def test_a_job_of_another_controller_is_left_alone(play: Stage) -> None:
    await play.create(JOBS, job("other", managedBy="edl.dev/operator"))
    await play.create(JOBS, job("ours"))
    await running(play, 1)
    assert (await play.get(JOBS, "other")).get("status", {}) in ({}, {"active": 0})
    assert {one["metadata"]["labels"]["job-name"] for one in await play.pods()} == {"ours"}


async def test_deleting_a_job_releases_its_pods(play: Stage) -> None:
    await play.create(JOBS, job(parallelism=2, completions=2))
    await running(play, 2)
    await play.client.delete(JOBS, "j", namespace="default", propagation="Background")
    await play.gone(JOBS, "j")

    async def empty() -> bool:
        return await play.names() == []

    await eventually(empty)
