"""Pods are where the plan saw them, so that what the plan fits is what runs."""

import asyncio

import pytest

from edl.operator.resources import PODS
from tests.stories.story import OBEDIENT, Data, Story

pytestmark = pytest.mark.timeout(240)
JOBS = ("a", "b", "c")


def shared_cluster(story: Story) -> Data:
    """Fifteen trainers fill two nodes of four cores but for a remainder on one of them, where all helpers must be."""
    helper = {"command": ["sh", "-c", OBEDIENT], "resources": {"requests": {"cpu": story.cpu(0.03)}}}
    trainer = {"min-instance": 1, "max-instance": 15, "resources": {"requests": {"cpu": story.cpu(0.5)}}}
    return {"master": helper, "pserver": helper | {"min-instance": 1}, "trainer": trainer, "freezing_window": "0s"}


@pytest.mark.case("acceptance-22")
async def test_three_jobs_share_the_cluster_as_the_plan_fits_them(story: Story) -> None:
    await asyncio.gather(*(story.submit(name, script=OBEDIENT, **shared_cluster(story)) for name in JOBS))

    async def sizes() -> bool:
        return [len(await story.pods("trainer", name)) for name in JOBS] == [5, 5, 5]

    await story.until(sizes, "each of the three runs five trainers")
    for name in JOBS:
        await story.until_running(1, "pserver", name)
        status = await story.until_phase("running", name)
        shrunk = [one["reason"] for one in status["scale_status"]["history"] if one["to"] < one.get("from", 0)]
        assert not any("no node" in reason or "withdrawn" in reason for reason in shrunk), shrunk
    pods = (await story.client.list(PODS, namespace=story.namespace)).items
    helpers = {pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["labels"]["edl.dev/role"] != "trainer"}
    assert len(helpers) == 1, "on the node that has no room for another trainer"
