"""An edit that is refused stays refused, and without effect, when another operator leads."""

import pytest

from edl.operator.resources import JOB_RESOURCES, JOBS, PODS, REPLICA_SETS
from tests.operator.stage import Data, Stage, stage
from tests.operator.test_easydl import easydl_stage, job, plan, role

BAD = {"spec": {"containers": [{"name": "trainer", "resources": {"limits": {"cpu": "lots"}}}]}}
EDITS: dict[str, tuple[Data, str]] = {
    "no more servers": ({"spec": {"pserver": None}}, "spec.pserver: cannot be removed"),
    "no more master": ({"spec": {"master": None}}, "spec.master: cannot be removed"),
    "an invalid template": ({"spec": {"trainer": {"template": BAD}}}, "lots"),
}


@pytest.mark.case("acceptance-4")
@pytest.mark.parametrize("what", EDITS)
async def test_over_a_change_of_leaders_a_refused_edit_changes_nothing(what: str) -> None:
    edit, words = EDITS[what]
    async with stage(lenient=True) as scene:
        async with scene.operator():
            await scene.submit()
            await scene.until_phase("running")
            reported = await told_to(scene, "j-trainer-0")
        await scene.edit(edit)
        async with scene.operator():
            assert words in (await scene.until_condition("Valid", "False"))["message"]
            await scene.delete(JOBS, "j-trainer")
            await scene.delete(REPLICA_SETS, "j-pserver")
            await scene.until(lambda: scene.get(PODS, "j-trainer-0-1"), "a trainer is made anew")
            await scene.until(lambda: _servers(scene), "and two servers")
            status = await scene.until_phase("running")
            assert await told_to(scene, "j-trainer-0-1") == reported
            assert [one["role"] for one in status["replica_statuses"]] == ["master", "pserver", "trainer"]
            assert "cannot be scaled" not in status["scale_status"]["reason"]
            assert words in (await scene.until_condition("Valid", "False"))["message"]


async def _servers(scene: Stage) -> bool:
    return len(await scene.pods("pserver")) == 2


async def told_to(scene: Stage, name: str) -> dict[str, str | None]:
    pod = await scene.get(PODS, name)
    assert pod is not None
    own = {"EDL_ATTEMPT", "EDL_POD_NAME"}
    return {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"] if one["name"] not in own}


@pytest.mark.case("acceptance-5")
async def test_the_reason_of_a_size_follows_each_edit() -> None:
    """Also where nothing changes but the words: the same code for another number."""
    async with stage() as scene, scene.operator():
        await scene.submit(trainer={"min-instance": 2, "max-instance": 2}, freezing_window="0s")
        await scene.until_phase("running")
        for least in (50, 40, 30):
            await scene.edit({"spec": {"trainer": {"min-instance": least, "max-instance": 60}}})
            words = f"new minimum of {least} waits"
            await scene.until(lambda words=words: _says(scene, words), words)  # type: ignore[misc]


async def _says(scene: Stage, words: str) -> bool:
    return words in (await scene.status())["scale_status"]["reason"]


@pytest.mark.case("acceptance-5")
async def test_the_reason_of_a_plan_follows_each_edit() -> None:
    """Whichever of the two specs was edited: what is said is about the present one."""
    async with easydl_stage() as scene, scene.operator():
        await scene.make(job())
        await scene.until_phase("Running")
        await scene.client.create(
            JOB_RESOURCES, plan(parameter_server=role(60, "1"), worker=role(1)), namespace="default"
        )
        for servers in (60, 50, 40):
            edit = {"spec": {"parameter_server": role(servers, "1")}}
            await scene.client.patch(JOB_RESOURCES, "r", edit, namespace="default")
            words = f"needs {servers}.5 CPU"
            await scene.until(lambda words=words: _plan_says(scene, words), words)  # type: ignore[misc]
            await scene.until(lambda words=words: _queued_for(scene, words), words)  # type: ignore[misc]


async def _plan_says(scene: Stage, words: str) -> bool:
    status = (await scene.client.get(JOB_RESOURCES, "r", namespace="default")).get("status") or {}
    return words in status.get("reason", "")


async def _queued_for(scene: Stage, words: str) -> bool:
    return words in (await scene.until_condition("Queued"))["message"]
