"""The closed loop with real processes: Brain, trainer, parameter servers, workers that train, and kill -9."""

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from edl.brain.client import BrainClient
from edl.brain.messages import Beginning
from edl.brain.policy.facts import Features
from edl.brain.tokens import mint
from tests.runtime.harness import until
from tests.runtime.trainer.cluster import KEY, Cluster, cluster

WORKER = ["-m", "tests.runtime.trainer.saturating"]
QUICK = {"EDL_PLAN_SECONDS": "2", "EDL_TASK_LEASE": "2"}


def judged(made: Cluster) -> list[dict[str, Any]]:
    return [plan for plan in made.state().get("plans", []) if plan.get("verdict")]


def at_rest(made: Cluster, looks: int) -> bool | None:
    """Whether so many samples were taken since the last plan without another one."""
    state = made.state()
    if not state.get("plans") or len(state["plans"]) < 3:
        return None
    since = [sample for sample in state.get("samples", []) if sample["time"] > state["plans"][-1]["time"]]
    return True if len(since) >= looks else None


@pytest.mark.timeout(300)
def test_a_job_that_saturates_at_six_is_led_there_and_its_like_starts_there(tmp_path: Path) -> None:
    with cluster(tmp_path, QUICK, worker=WORKER) as made:
        url = made.start_brain()
        made.start_trainer(EDL_BRAIN_URL=url, EDL_BRAIN_TOKEN=made.brain_token())
        until(lambda: (at_rest(made, 4) and 5 <= made.sizes[-1] <= 7) or None, "a job that rests at about six", 200)
        state = made.state()
        assert len(made.sizes) <= 10
        assert {plan.get("source", "brain") for plan in state["plans"]} == {"brain"}
        assert [plan["verdict"] for plan in judged(made)][:2] == ["safety", "paid"]
        best = max(sample["throughput"] for sample in state["samples"])
        like = Features(program="python train.py", image="any", namespace="ns", records=90_000)
        answer = BrainClient(url, mint(KEY, "*"), timeout=30).begin("ns/other/u2", Beginning(like))
        assert answer.plan is not None
        assert answer.plan.rule == "start-similar"
        begun = answer.plan.roles["worker"].replicas
        there = [sample["throughput"] for sample in state["samples"] if sample["workers"] == begun]
        assert there
        assert max(there) >= 0.8 * best, "within 20 % of the best from history alone"


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


@pytest.mark.timeout(300)
def test_kill_9_of_anybody_at_random_and_every_record_counts_once(tmp_path: Path) -> None:
    records, size, epochs = 600, 10, 3
    env = {**QUICK, "COUNT": "1", "RECORDS": str(records), "SIZE": str(size), "EPOCHS": str(epochs)}
    env |= {"OWN": "0.15", "SHARED": "0.01", "EDL_CHECKPOINT_SECONDS": "2"}
    rng = random.Random(7)
    with cluster(tmp_path, env, worker=WORKER, room=3) as made:
        url = made.start_brain()
        port, brain = int(url.rpartition(":")[2]), {"EDL_BRAIN_URL": url, "EDL_BRAIN_TOKEN": made.brain_token()}
        made.start_trainer(**brain)
        victims = ["worker-0", "trainer", "ps-0", "brain", "worker-1", "trainer"]
        rng.shuffle(victims)
        for number, victim in enumerate(victims, 1):
            goal = number * records * epochs // size // (len(victims) + 2)
            until(lambda goal=goal: len(made.lines("trained")) >= goal or None, f"{goal} trained shards", 120)  # type: ignore[misc]
            made.kill(victim)
            if victim == "trainer":
                made.start_trainer(**brain)
            if victim == "brain":
                made.start_brain(port)
        assert made.trainer_code(200) == 0
        ends = made.lines("end")
        assert ends, "no worker saw the end"
        assert {(line["least"], line["most"]) for line in ends} == {(epochs, epochs)}, (
            "a record was lost or counted twice"
        )
        shards = {(epoch, shard) for epoch in range(epochs) for shard in range(records // size)}
        trained = Counter((line["epoch"], line["shard"]) for line in made.lines("trained") if not line["void"])
        assert set(trained) == shards, "the ledger knows them all"


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
