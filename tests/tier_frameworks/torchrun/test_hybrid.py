"""A model that the workers of a pod share, and every pod has: members come and go in place, and nothing is lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from examples.pytorch import elastic_sharded

from edl.runtime.torch.warm_workers import Zygote
from edl.torch.data.order import order_of
from edl.torch.optimizer import attach
from edl.torch.refusal import NotElasticError
from edl.torch.sharded.siblings import PodSiblings
from tests.tier_frameworks.torchrun import hybrid_living, refused_hybrid
from tests.tier_frameworks.torchrun.group import group, until
from tests.tier_frameworks.torchrun.ledger import Ledger
from tests.tier_frameworks.torchrun.pods import Pods, job
from tests.tier_frameworks.torchrun.test_living_workers import aim, aimed, hit

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
SCRIPT = Path(elastic_sharded.__file__)
COLD = 300.0  # seconds until a pod trains that has to import torch first
AIMED = {"AIMED_SCRIPT": SCRIPT.name}


@pytest.fixture
def made(tmp_path: Path, zygote: Zygote) -> Iterator[Pods]:
    with job(tmp_path, zygote, script=SCRIPT) as pods:
        yield pods


def alone(samples: int = 1000, batch: int = 96) -> Iterator[float]:
    """What one worker that was never disturbed has after each step."""
    model = elastic_sharded.network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    inputs, wanted, _ = elastic_sharded.data(samples).tensors
    sampler = torch.utils.data.RandomSampler(range(samples))
    epoch = 0
    while True:
        order = order_of(sampler, samples, torch.initial_seed() >> 1, epoch)
        for at in range(0, samples, batch):
            chosen = order[at : at + batch]
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs[chosen]), wanted[chosen]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            yield sum(weight.double().sum().item() for weight in model.parameters())
        epoch += 1


def assert_as_if_alone(made: Pods) -> None:
    made.assert_exact()
    assert_equal(made, alone())


def assert_equal(made: Pods, undisturbed: Iterator[float]) -> None:
    done = made.lines("did")
    expected = list(islice(undisturbed, done[-1]["step"]))
    for line in done:
        assert line["model"] == pytest.approx(expected[line["step"] - 1], abs=2e-3), line


@pytest.mark.parametrize("workers", [1, 2])
def test_pods_join_leave_and_are_killed(made: Pods, workers: int) -> None:
    one, two, three = workers, 2 * workers, 3 * workers
    made.start("a", "b", workers=workers)
    made.until_steps(two)
    made.start("c", workers=workers)
    made.until_steps(three)
    print(f"join: {made.pause(two, three) * 1000:.0f} ms")
    made.terminate("b")
    made.until_steps(two)
    print(f"leave: {made.pause(three, two) * 1000:.0f} ms")
    made.kill("c")
    made.until_steps(one)
    print(f"kill: {made.pause(two, one) * 1000:.0f} ms")
    assert len(made.pids()) == three, "no worker was started anew"
    assert_as_if_alone(made)


@pytest.mark.parametrize("local", [0, 1])
def test_a_killed_process_takes_its_pod_along_which_comes_back(made: Pods, local: int) -> None:
    made.start("a", "b", workers=2, restarts=3)
    made.until_steps(4)
    before = made.pods["b"].pids()
    os.kill(before[local], signal.SIGKILL)
    until(lambda: len(made.pids()) == 6, "its successors")
    made.until_steps(4)
    assert not set(made.pods["b"].pids()) & set(before)
    assert_as_if_alone(made)


SMALL: dict[str, Any] = {"samples": 104, "batch": 6}
"""Shares differ, and of the last batch of an epoch, which has two samples, most workers have none."""


def join_and_kill(made: Pods) -> None:
    made.start("a", "b", workers=2, **SMALL)
    made.until_steps(4, more=20)
    made.start("c", workers=2, **SMALL)
    made.until_steps(6, more=20)
    made.kill("a")
    made.until_steps(4)


def test_samples_weigh_the_same_whatever_the_shares_are(made: Pods) -> None:
    join_and_kill(made)
    made.assert_one_model()
    assert_equal(made, alone(**SMALL))


def test_running_means_are_those_of_all_workers_which_evaluate_together(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote, script=Path(hybrid_living.__file__)) as made:
        join_and_kill(made)
        made.assert_one_model()


@pytest.mark.parametrize("place", ["sending", "shards-1", "summed", "committed"])
def test_a_pod_is_killed_while_its_workers_are_apart(tmp_path: Path, zygote: Zygote, place: str) -> None:
    """One of them sends its part of the state, or has not given its gradients while the other one has; one has the sum,
    or the step, first."""
    with aimed(tmp_path, zygote) as made:
        made.start("a", "b", workers=2, env=AIMED)
        made.until_steps(4)
        aim(made, place)
        made.start("c", workers=2, env=AIMED)
        made.kill(hit(made).pod)
        made.until_steps(4)
        assert_as_if_alone(made)


def test_one_worker_of_a_pod_does_not_enter_a_round_without_the_other(tmp_path: Path, zygote: Zygote) -> None:
    with aimed(tmp_path, zygote) as made:
        made.start("a", "b", "c", workers=2, env=AIMED)
        made.until_steps(6)
        aim(made, "entry")
        made.terminate("b")
        until((made.folder / "aim" / "entry.taken").exists, "a worker that loses its peers")
        made.until_steps(4)
        assert len(made.pids()) == 6, "no worker was started anew"
        assert_as_if_alone(made)


@pytest.mark.parametrize("workers", [2, 3])
def test_when_all_are_lost_pods_of_any_number_of_workers_go_on_from_the_checkpoint(made: Pods, workers: int) -> None:
    saved = made.folder / "model.pt"
    made.start("a", "b", workers=2, checkpoint=saved, every=5)
    made.until_steps(4, more=7)
    made.kill("a")
    made.kill("b")
    step = torch.load(saved, weights_only=True)["cursor"]["step"]
    assert step >= 5
    known = made.pids()
    made.start("c", workers=workers, checkpoint=saved, every=5)
    until(lambda: len(made.pids()) == len(known) + workers, "its workers")
    made.until_steps(workers)
    assert min(line["step"] for line in made.lines("did") if line["pid"] not in known) == step + 1
    assert_as_if_alone(made)


def test_all_end_when_all_is_trained(made: Pods) -> None:
    made.start("a", "b", workers=2, epochs=2, pause=0.0)
    assert (made.code("a"), made.code("b")) == (0, 0)
    assert made.lines("did")[-1]["step"] == 2 * 11
    assert_as_if_alone(made)


@pytest.mark.timeout(900)
def test_torchrun_leaves_workers_that_share_a_model_alive(tmp_path: Path) -> None:
    with group(tmp_path, script=SCRIPT) as made:
        ledger = Ledger(made.trace)
        words = ("--epochs", "100000", "--pause", "0.05", "--trace", str(made.trace))
        env = {"PET_NPROC_PER_NODE": "2", "EDL_WARM_IMPORTS": "torch.distributed.fsdp"}
        made.leader.edit(target=1)
        made.start("a", args=words, env=env)
        ledger.until_steps(2, patience=COLD)
        made.leader.edit(target=2)
        made.start("b", args=words, env=env)
        ledger.until_steps(4, patience=COLD)
        made.agents["b"].send_signal(signal.SIGTERM)
        ledger.until_steps(2)
        assert len(ledger.pids()) == 4, "no worker was started anew"
        ledger.assert_exact()


def test_what_cannot_be_elastic_is_refused_with_the_fix() -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("EDL_")}
    script = [sys.executable, str(Path(refused_hybrid.__file__))]
    said = json.loads(subprocess.run(script, stdout=subprocess.PIPE, env=env, check=True).stdout)
    assert said.pop("whole") == "", "what can be is not refused"
    fixes = {
        "other mesh": "mesh=elastic.local_mesh()) gives every pod a whole model; elastic.Checkpointer is for",
        "initialised": "leave out init_process_group()",
        "in part": "2 of 4 parameters are not sharded: call fully_shard() for the model itself",
        "micro": "accumulate batches with elastic.no_sync()",
        "two optimizers": "one optimizer",
        "stream": "a data set with a length and indices",
    }
    assert set(said) == set(fixes)
    for case, fix in fixes.items():
        assert fix in said[case], case


def test_a_scaler_that_sees_one_shard_alone_is_refused() -> None:
    engine: Any = SimpleNamespace(siblings=PodSiblings(None, 0, 2))
    with pytest.raises(NotElasticError, match="take bfloat16"):
        attach(engine, "scaler", torch.amp.GradScaler("cpu"))
