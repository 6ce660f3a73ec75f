"""Edits that are refused change nothing, and each is told of; a job that is over claims no size."""

import pytest

from edl.operator.resources import PODS
from tests.stories.story import OBEDIENT, Data, Story

SERVER: Data = {"command": ["sh", "-c", OBEDIENT]}
NO_SERVERS, ELSEWHERE, FEWER = {"pserver": None}, {"mountPath": "/other"}, {"trainer": {"passes": 1}}


async def _told(story: Story, words: str) -> bool:
    """Of the present spec, not of an earlier one."""
    job = await story.job()
    valid = [one for one in job.get("status", {}).get("conditions", ()) if one["type"] == "Valid"]
    current = [one for one in valid if one.get("observedGeneration") == job["metadata"]["generation"]]
    return any(one["status"] == "False" and words in one["message"] for one in current)


async def _runs(story: Story, trainer: str) -> bool:
    return await story.pods() == [trainer]


def _mounts(pod: Data | None) -> list[str]:
    assert pod is not None
    return [one["mountPath"] for one in pod["spec"]["containers"][0].get("volumeMounts", ())]


@pytest.mark.case("acceptance-4")
@pytest.mark.case("acceptance-5")
@pytest.mark.case("acceptance-11")
@pytest.mark.case("acceptance-18")
async def test_refused_edits_in_a_row_change_nothing_and_each_is_told_of(story: Story) -> None:
    more: Data = {"mountPath": "/data", "master": SERVER, "pserver": {**SERVER, "min-instance": 1}, "backoff_limit": 2}
    trainer = story.trainer(1, 1) | {"passes": 3}
    await story.submit(script=OBEDIENT, trainer=trainer, **more)
    await story.until_phase("running")
    before = await story.get(PODS, "j-trainer-0")
    for edit, words in ((NO_SERVERS, "spec.pserver"), (ELSEWHERE, "/other cannot"), (FEWER, "passes: 1 cannot")):
        await story.edit({"spec": edit})
        await story.until(lambda words=words: _told(story, words), f"the refusal of {words}")  # type: ignore[misc]
    await story.kill("j-trainer-0")
    await story.until(lambda: _runs(story, "j-trainer-0-1"), "its trainer has a successor")
    assert _mounts(await story.get(PODS, "j-trainer-0-1")) == _mounts(before)
    assert len(await story.pods("pserver")) == 1
    await story.kill("j-trainer-0-1")
    status = await story.until_phase("failed")
    assert "target" not in status["scale_status"]
    assert (status["scale_status"].get("current", 0), status["scale_status"]["code"]) == (0, "Failed")
