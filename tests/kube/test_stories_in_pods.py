"""Stories of TrainingJobs from the very source of the other backends, with everything as it is for users: containers on
two nodes, and operators in pods, installed by our manifests. Stories that need more cores or other nodes than these two
have, or a first process that can kill itself, are told on the other backends."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from edl.kube.budget import Budget
from edl.kube.client import Client
from edl.kube.kubeconfig import from_kubeconfig
from edl.kube.transport import HttpTransport
from edl.operator.resources import NAMESPACES
from edl.operator.settings import NAMESPACE
from tests.kube.cluster.kubectl import Kubectl, eventually
from tests.kube.installed import leader
from tests.kube.manifests import SHELL_IMAGE
from tests.stories import test_training_job as told
from tests.stories.story import Story

pytestmark = [pytest.mark.kube, pytest.mark.timeout(180)]

test_all_roles_come_up = told.test_all_roles_come_up_find_each_other_and_are_released_at_the_end
test_an_evicted_trainer_is_no_failure = told.test_an_evicted_trainer_is_no_failure
test_deleting_a_job_deletes_exactly_what_it_owns = told.test_deleting_a_job_deletes_exactly_what_it_owns
test_a_job_that_does_not_fit_waits_and_says_why = told.test_a_job_that_does_not_fit_waits_and_says_why
test_the_operator_may_die_at_any_time = told.test_the_operator_may_die_at_any_time


async def test_the_first_failure_fails_a_job_that_tolerates_none(story: Story) -> None:
    script = "echo reading; echo 'no such data' >&2; exit 3"
    await told.test_the_first_failure_fails_a_job_that_tolerates_none(story, script, 3, "no such data")


async def test_an_image_that_does_not_exist_is_named_and_others_run(story: Story) -> None:
    await story.submit("lost", script="true", image="localhost/no/such-image:1")
    await story.submit("good", script="true")
    await story.until_phase("succeeded", "good")

    async def told() -> bool:
        reason = str((await story.status("lost")).get("reason"))
        return "ImagePull" in reason and "localhost/no/such-image:1" in reason

    await story.until(told, "the job says which image is missing")
    assert (await story.status("lost"))["phase"] == "creating"


class InstalledBackend:
    shell = SHELL_IMAGE

    def __init__(self, client: Client, kubectl: Kubectl, image: str) -> None:
        self.client, self.python, self._kubectl = client, image, kubectl
        self.kubeconfig = kubectl.kubeconfig

    async def kill_operator(self) -> None:
        """The leader, without a word; the other one waits for its lease to end."""
        await asyncio.to_thread(self._kill_leader)

    def _kill_leader(self) -> None:
        old = leader(self._kubectl)
        self._kubectl.within(NAMESPACE)("delete", "pod", old, "--force", "--grace-period=0")
        eventually(lambda: leader(self._kubectl) not in ("", old), within=60, what="another operator leads")

    async def add_node(self, name: str, cpu: str) -> None:
        raise NotImplementedError("this cluster has the nodes that it has")

    async def lose_node(self, name: str) -> None:
        raise NotImplementedError("this cluster keeps its nodes")


@pytest.fixture
async def story(installed: Kubectl, image: str) -> AsyncIterator[Story]:
    client = Client(HttpTransport(from_kubeconfig([installed.kubeconfig])), budget=Budget(qps=1000, burst=1000))
    try:
        story = await Story.begin(InstalledBackend(client, installed, image))
        yield story
        await client.delete(NAMESPACES, story.namespace)
    finally:
        await client.close()
