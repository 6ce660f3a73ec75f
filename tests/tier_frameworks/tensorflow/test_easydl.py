"""The parameter-server example of TensorFlow as an EasyDL job: it learns, and trains on through a worker's death."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.operator.resources import JOB_RESOURCES, PODS
from tests.stories.backend import embedded
from tests.stories.easydl import JOBS, EasydlStory
from tests.stories.processes import kill_pod
from tests.stories.story import Story
from tests.tier_frameworks.pod_logs import pod_logs

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-tensorflow" / "bin" / "python"
SCRIPT = Path(__file__).parent / "trains_until.py"


def example(enough: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job and its resources as they stand, but for how long it trains and where TensorFlow is."""
    job, resources = yaml.safe_load_all((ROOT / "examples" / "easydl" / "tensorflow.yaml").read_text())
    container = {
        "name": "main",
        "image": "any",
        "command": [str(PYTHON), str(SCRIPT)],
        "env": [{"name": "TRAINS_UNTIL", "value": str(enough)}, {"name": "OMP_NUM_THREADS", "value": "1"}],
    }
    for role in ("worker", "parameterServer"):
        assert job["spec"][role]["template"]["spec"]["containers"][0]["command"][0] == "python"
        job["spec"][role]["template"] = {"spec": {"containers": [container]}}
    return job, resources


async def epochs(story: Story) -> int:
    said = await pod_logs(story, "tensorflow", "worker")
    return len(re.findall(r"^epoch \d+: ", said.get("tensorflow-worker-0", ""), re.MULTILINE))


@pytest.mark.case("acceptance-15")
async def test_it_trains_through_the_death_of_a_worker(tmp_path: Path) -> None:
    assert PYTHON.exists(), "`make test-frameworks` installs it"
    enough = tmp_path / "enough"
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        story = await Story.begin(backend)
        story.patience = 200.0
        tale = EasydlStory(story, "tensorflow")
        job, resources = example(enough)
        uid = (await story.create(JOBS, job))["metadata"]["uid"]
        await story.create(JOB_RESOURCES, resources)

        async def trained(more: int) -> None:
            wanted = await epochs(story) + more

            async def look() -> bool:
                return await epochs(story) >= wanted

            await story.until(look, f"{wanted} epochs are trained")

        await trained(2)
        assert kill_pod(uid, "tensorflow-worker-1")

        async def replaced() -> bool:
            pod = await story.get(PODS, "tensorflow-worker-1-1")
            return pod is not None and pod.get("status", {}).get("phase") == "Running"

        await story.until(replaced, "the killed worker has a successor")
        await trained(3)
        enough.touch()
        status = await tale.until_phase("Succeeded")
        assert status["replicaStatuses"]["worker"]["failed"] == 1
        said = (await pod_logs(story, "tensorflow", "worker"))["tensorflow-worker-0"]
        found = [float(word) for line in re.findall(r"^weights (.*)$", said, re.MULTILINE) for word in line.split()]
        assert found == pytest.approx([1.0] * 8 + [3.0], abs=0.1)
