"""The loop of a trainer with real processes, without an operator: too little memory, and a Brain that goes away."""

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
def test_a_job_with_too_little_memory_recovers_without_anybody(tmp_path: Path) -> None:
    """A worker takes more than the 128 MiB of this cold start; it is killed for it, and lives with twice as much."""
    env = {**QUICK, "NEEDS": "150", "RECORDS": "200", "OWN": "0.02", "SHARED": "0.005"}
    env["EDL_PLAN_SETTINGS"] = '{"cold_memory": 128}'
    with cluster(tmp_path, env, worker=WORKER, room=1) as made:
        made.start_trainer()
        assert made.trainer_code() == 0
        plans = made.state()["plans"]
        memories = [plan["plan"]["roles"]["worker"]["resource"]["memory"] for plan in plans]
        assert memories[0] == 128
        assert max(memories) >= 256
        assert any(plan["plan"]["rule"] == "oom" for plan in plans)
        assert {plan["source"] for plan in plans} == {"local"}, "there was no Brain, and it says so"


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
