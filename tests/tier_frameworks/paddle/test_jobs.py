"""Real PaddlePaddle in the pods of TrainingJobs: unmodified scripts learn, and lose nothing when trainers are killed.

What counts is the model: Paddle ends with code 0 also when it has learnt nothing.
"""

import importlib.util
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from edl.operator.resources import TRAINING_JOBS
from tests.stories.backend import embedded
from tests.stories.processes import kill_pod
from tests.stories.story import Story
from tests.tier_frameworks.pod_logs import pod_logs

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "paddle"
BEGUN, COUNTS = r"pass (\d): \S*(part-\d+)\n", r"pass (\d): \S*(part-\d+) counts"


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[Story]:
    assert importlib.util.find_spec("paddle"), "`make test-frameworks` installs it"
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        reported = await Story.begin(backend)
        reported.patience = 200.0
        yield reported


async def submit(story: Story, name: str, **env: str) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    variables = [{"name": key, "value": value} for key, value in env.items()]
    manifest["spec"]["trainer"]["template"] = {"spec": {"containers": [{"name": "trainer", "env": variables}]}}
    return await story.client.create(TRAINING_JOBS, manifest, namespace=story.namespace)


async def logs(story: Story, name: str) -> dict[str, str]:
    return await pod_logs(story, name, "trainer")


async def test_a_script_of_paddle_learns_on_its_own_servers(story: Story) -> None:
    await submit(story, "fit_a_line.yaml")
    await story.until_phase("succeeded", "paddle-line")
    reported = re.findall(r"^weights (.*)$", "\n".join((await logs(story, "paddle-line")).values()), re.MULTILINE)
    assert len(reported) == 2, "each trainer says what it has pulled in the end"
    for line in reported:
        found = np.array(line.split(), float)
        assert np.abs(found - [*np.linspace(-1, 1, 13), 3]).max() < 0.05
    await story.until_running(0, "pserver", "paddle-line")


async def test_an_elastic_script_survives_the_kill_of_its_first_trainer(story: Story) -> None:
    """Trainer 0 is the one that Paddle lets initialise the model: started again, it would reset it."""
    job = await submit(story, "ctr.yaml", FILES="24")
    await story.until_running(3, name="paddle-ctr")
    await story.until(lambda: _some(story, "paddle-ctr", 24), "a pass is trained")
    assert kill_pod(job["metadata"]["uid"], "paddle-ctr-trainer-0")
    status = await story.until_phase("succeeded", "paddle-ctr")
    assert status["replica_statuses"][-1]["failed"] == 1
    found = await logs(story, "paddle-ctr")
    reported = "\n".join(found.values())
    losses = [float(loss) for loss in re.findall(r"unseen\[1\]:\[([0-9.]+)\]", reported)]
    assert np.mean(losses) < 0.5, "of 0.69 for one who knows nothing: the embeddings were learnt"
    counts = Counter(re.findall(COUNTS, reported))
    assert set(counts.values()) == {1}, "each file counts once per pass"
    missing = {(str(number), f"part-{file:03}") for number in range(5) for file in range(24)} - set(counts)
    assert missing <= set(re.findall(BEGUN, found["paddle-ctr-trainer-0"])), "only the killed one could not say it"


async def test_a_lost_server_fails_the_job_and_is_named(story: Story) -> None:
    job = await submit(story, "ctr.yaml", FILES="200")
    await story.until(lambda: _some(story, "paddle-ctr", 3), "it trains")
    [victim, _] = await story.pods("pserver", "paddle-ctr")
    assert kill_pod(job["metadata"]["uid"], victim)
    status = await story.until_phase("failed", "paddle-ctr")
    assert "parameter server" in status["root_cause"]["message"], status["root_cause"]


async def _some(story: Story, name: str, count: int) -> bool:
    return len(re.findall(COUNTS, "\n".join((await logs(story, name)).values()))) >= count
