"""A pod with a job's labels that somebody else made: in another namespace, or in the job's own. The job goes on."""

import pytest

from edl.api.kubernetes.core import Pod
from edl.operator.resources import NAMESPACES, PODS
from tests.stories.story import ACCOUNTS, OBEDIENT, Data, Story

pytestmark = [pytest.mark.case("attack-2"), pytest.mark.timeout(240)]


@pytest.fixture
def story(story_on_both: Story) -> Story:
    return story_on_both


@pytest.mark.parametrize("code", [0, 3])
async def test_a_pod_of_somebody_else_neither_fails_nor_succeeds_a_job(story: Story, code: int) -> None:
    """Two attempts: one names the job as its controller from another namespace, one bears the labels beside it."""
    await story.submit(script=OBEDIENT, fault_tolerant=False, trainer={"min-instance": 2})
    await story.until_phase("running")
    real = await story.get(PODS, "j-trainer-0")
    assert real is not None
    before = (await story.status())["replica_statuses"]
    elsewhere = await _namespace(story)
    forged = _forged(real, "j-trainer-0", story, code)
    forged["metadata"]["ownerReferences"] = real["metadata"]["ownerReferences"]
    await story.client.create(PODS, forged, namespace=elsewhere)
    await story.create(PODS, _forged(real, "j-trainer-1-1", story, code))
    await story.until(lambda: _ended(story, story.namespace, "j-trainer-1-1"), "the pod beside the job has ended")
    await story.until(lambda: _ended(story, elsewhere, "j-trainer-0"), "the pod elsewhere has ended, or is collected")
    assert (await story.status())["replica_statuses"] == before
    assert await story.pods() == ["j-trainer-0", "j-trainer-1"]
    await story.kill("j-trainer-1")
    await story.until_phase("failed")  # by its own trainer, and by that alone
    assert (await story.status())["root_cause"]["pod"] == "j-trainer-1"


def _forged(real: Data, name: str, story: Story, code: int) -> Data:
    container = {"name": "main", "image": story.backend.shell, "command": ["sh", "-c", f"exit {code}"]}
    labels = {**real["metadata"]["labels"], "edl.dev/index": name.split("-")[2]}
    metadata: Data = {"name": name, "labels": labels, "annotations": real["metadata"].get("annotations", {})}
    spec = {"restartPolicy": "Never", "containers": [container]}
    return {"apiVersion": "v1", "kind": Pod.KIND, "metadata": metadata, "spec": spec}


async def _namespace(story: Story) -> str:
    name = f"{story.namespace}-other"
    await story.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def served() -> bool:
        return any(
            one["metadata"]["name"] == "default" for one in (await story.client.list(ACCOUNTS, namespace=name)).items
        )

    await story.until(served, "pods may be made in the other namespace")
    return name


async def _ended(story: Story, namespace: str, name: str) -> bool:
    """A pod whose owner is in another namespace is garbage, and may be gone before it ran."""
    pods = {pod["metadata"]["name"]: pod for pod in (await story.client.list(PODS, namespace=namespace)).items}
    return name not in pods or pods[name].get("status", {}).get("phase") in ("Succeeded", "Failed")
