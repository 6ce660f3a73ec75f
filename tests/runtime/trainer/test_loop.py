"""The loop of a trainer with real processes, without an operator, while its Brain goes away and comes back."""

import time
from pathlib import Path

import pytest

from edl.brain.client import BrainClient
from edl.brain.tokens import mint
from tests.runtime.harness import until
from tests.runtime.trainer.cluster import KEY, cluster

WORKER = ["-m", "tests.runtime.trainer.saturating"]
QUICK = {"EDL_PLAN_SECONDS": "2", "EDL_TASK_LEASE": "2"}


@pytest.mark.timeout(200)
def test_a_brain_that_goes_away_and_comes_back_is_missed_by_nobody(tmp_path: Path) -> None:
    env = {**QUICK, "EDL_PLAN_SECONDS": "1", "OWN": "0.1", "SHARED": "0.02"}
    with cluster(tmp_path, env, worker=WORKER, room=3) as made:
        url = made.start_brain()
        made.start_trainer(EDL_BRAIN_URL=url, EDL_BRAIN_TOKEN=made.brain_token())
        until(lambda: made.state().get("samples") or None, "a first sample")
        made.kill("brain")
        gone = time.time()
        log = next(tmp_path.glob("j-trainer.*.log"))
        until(lambda: "the Brain is not followed" in log.read_text() or None, "a trainer that notices")
        count = len(made.state()["samples"])
        until(lambda: len(made.state()["samples"]) >= count + 2 or None, "training that goes on")
        made.start_brain(int(url.rpartition(":")[2]))
        until(lambda: "the Brain answers again" in log.read_text() or None, "a trainer that is heard again")
        client = BrainClient(url, mint(KEY, "*"), timeout=30)
        told = until(lambda: [s for s in client.job("ns/j").samples if s.time > gone] or None, "samples of meanwhile")
        assert len(told) >= 2, "what was measured while it was away was told when it came back"
