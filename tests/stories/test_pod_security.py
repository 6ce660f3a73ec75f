"""Jobs in a namespace whose Pod Security admits none of their pods: they hold no room that others could use."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from edl.operator.resources import NAMESPACES, TRAINING_JOBS
from tests.stories.easydl import JOBS as EASYDL_JOBS
from tests.stories.easydl import EasydlStory
from tests.stories.elastic import ELASTIC_JOBS, Elastic
from tests.stories.story import OBEDIENT, Story

RESTRICTED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
WHOLE: dict[str, Any] = {"master": {}, "freezing_window": "0s"}


async def _training(story: Story) -> object:
    return await story.submit(script=OBEDIENT, trainer=story.trainer(4, 4), **WHOLE)


async def _pytorch(story: Story) -> object:
    return await Elastic(story).submit(OBEDIENT, 4, 4)


async def _easydl(story: Story) -> object:
    return await EasydlStory(story).submit()


KINDS: dict[str, tuple[Any, Callable[[Story], Awaitable[object]]]] = {
    "training": (TRAINING_JOBS, _training),
    "pytorch": (ELASTIC_JOBS, _pytorch),
    "easydl": (EASYDL_JOBS, _easydl),
}


@pytest.mark.case("acceptance-24")
@pytest.mark.timeout(420)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_whose_pods_are_refused_gives_back_what_it_was_granted(
    story_on_kubernetes: Story, kind: str
) -> None:
    rich, poor = story_on_kubernetes, await Story.begin(story_on_kubernetes.backend)
    resource, submit = KINDS[kind]
    try:
        await rich.submit("rich", script=OBEDIENT, trainer=rich.trainer(1, 7), **WHOLE)
        await rich.until_running(7, name="rich")
        await rich.client.patch(NAMESPACES, poor.namespace, RESTRICTED)
        await submit(poor)

        async def refused() -> bool:
            status = (await poor.client.get(resource, "j", namespace=poor.namespace)).get("status") or {}
            scale = status.get("scale") or status.get("scale_status") or {}
            given_back = (scale.get("target"), scale.get("code")) == (0, "PodRefused")
            return given_back and "violates PodSecurity" in scale["reason"]

        await rich.until(refused, "the refusal is the reason, and nothing is held")
        await rich.until_running(7, name="rich")
    finally:
        await poor.end()
