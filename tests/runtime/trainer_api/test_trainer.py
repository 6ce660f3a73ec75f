"""The library as a script uses it, with a whole job in its own process; and the examples, as they are."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from edl.runtime.environment import SettingError
from edl.runtime.rpc import RefusalError
from edl.trainer import Acknowledgement, JobFailedError, Optimizer, Sparse, Trainer
from tests.runtime.harness import ROOT, Service

ALONE: dict[str, str] = {}


def test_a_loop_in_ten_lines_learns() -> None:
    target, losses = np.array([1.0, -2.0, 3.0]), []
    with Trainer(ALONE) as trainer:
        model = trainer.parameters(dense={"w": np.zeros(3)}, optimizer="adam", learning_rate=0.3)
        for _ in trainer.tasks(chunks=40, passes=2):
            weights = model.pull()["w"]
            losses.append(float(np.mean((weights - target) ** 2)))
            model.push({"w": weights - target})
            trainer.report(loss=losses[-1], samples=1)
    assert len(losses) == 80
    assert losses[-1] < losses[0] / 100


def test_rows_are_made_when_they_are_asked_for_and_learn_by_themselves() -> None:
    with Trainer(ALONE) as trainer:
        model = trainer.parameters(sparse={"e": Sparse(2, scale=0.5, seed=3), "f": 1}, learning_rate=1.0)
        ids = np.array([[7, 10**15], [7, -4]])
        before = model.pull_rows("e", ids)
        assert before.shape == (2, 2, 2)
        assert (before[0, 0] == before[1, 0]).all()
        assert abs(before).max() <= 0.5
        for _ in trainer.tasks(chunks=1):
            model.push(rows={"e": (ids, np.ones((2, 2, 2))), "f": ([1], [[5.0]])})
        after = model.pull_rows("e", ids)
        np.testing.assert_allclose(before - after, [[[2, 2], [1, 1]], [[2, 2], [1, 1]]], rtol=1e-5)


def test_no_row_at_all_is_no_trouble() -> None:
    """As for every server that none of a batch's rows belongs to."""
    with Trainer(ALONE) as trainer:
        model = trainer.parameters(sparse={"e": 3}, learning_rate=1.0)
        assert model.pull_rows("e", []).shape == (0, 3)
        for _ in trainer.tasks(chunks=1):
            model.push(rows={"e": ([], [])})


def test_every_task_is_acknowledged_once_and_parts_cover_the_data() -> None:
    news: list[Acknowledgement] = []
    seen: Counter[int] = Counter()
    with Trainer(ALONE, on_done=news.append) as trainer:
        for task in trainer.tasks(chunks=7, passes=3):
            seen.update(range(*task.part(100).indices(100)))
    assert Counter((n.task.pass_index, n.task.chunk) for n in news) == Counter(
        (index, chunk) for index in range(3) for chunk in range(7)
    )
    assert all(n.counted for n in news)
    assert seen == Counter(dict.fromkeys(range(100), 3))


def test_a_failing_hook_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(news: Acknowledgement) -> None:
        raise OSError("disk full")

    with Trainer(ALONE, on_done=broken) as trainer:
        assert len(list(trainer.tasks(chunks=3))) == 3
    assert "on_done failed" in caplog.text


def test_a_task_that_is_given_up_is_tried_again_and_three_times_end_the_job() -> None:
    tried: list[int] = []

    def loop(trainer: Trainer) -> None:
        for task in trainer.tasks(chunks=2):
            tried.append(task.chunk)
            if task.chunk == 1:
                task.fail("bad data")

    with Trainer(ALONE) as trainer, pytest.raises(JobFailedError, match="chunk 1 of pass 0 failed 3 times; last: bad"):
        loop(trainer)
    assert tried.count(1) == 3


def test_leaving_the_loop_early_gives_the_task_back() -> None:
    with Trainer(ALONE) as trainer:
        for _ in trainer.tasks(chunks=2):
            break
        assert [task.chunk for task in trainer.tasks(chunks=2)] == [0, 1]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({}, "at least one dense tensor"),
        ({"dense": {"a": [1.0]}, "sparse": {"a": 2}}, "must differ"),
        ({"sparse": {"a": 0}}, "width"),
        ({"dense": {"a": [1.0]}, "optimizer": "adamw"}, "one of sgd, momentum, adam"),
        ({"dense": {"a": [1.0]}, "learning_rate": 0.0}, "learning_rate"),
    ],
)
def test_a_model_that_makes_no_sense_is_refused_in_words(model: dict[str, object], words: str) -> None:
    with Trainer(ALONE) as trainer, pytest.raises(ValueError, match=words):
        trainer.parameters(**model)  # type: ignore[arg-type]  # that is the point


def test_gradients_that_do_not_fit_are_refused_in_words() -> None:
    with Trainer(ALONE) as trainer:
        model = trainer.parameters(dense={"w": np.zeros((2, 3))}, sparse={"e": 4}, optimizer=Optimizer("momentum"))
        with pytest.raises(RuntimeError, match="inside `for task in"):
            model.push({"w": np.zeros((2, 3))})
        for _ in trainer.tasks(chunks=1):
            with pytest.raises(ValueError, match=r"shape \(3, 2\), the tensor has \(2, 3\)"):
                model.push({"w": np.zeros((3, 2))})
            with pytest.raises(ValueError, match="no dense tensor 'x'"):
                model.push({"x": np.zeros(1)})
            with pytest.raises(ValueError, match="4 columns, the gradients have 3"):
                model.push(rows={"e": ([1], [[1, 2, 3]])})
            with pytest.raises(ValueError, match="no table 'nope'"):
                model.pull_rows("nope", [1])


def test_too_many_chunks_are_refused_in_words() -> None:
    with Trainer(ALONE) as trainer, pytest.raises(RefusalError, match="1 to 500000 chunks"):
        next(iter(trainer.tasks(chunks=500_001)))


def test_a_job_without_a_master_says_so() -> None:
    service = Service()
    env = {
        "EDL_JOB_NAMESPACE": "ns",
        "EDL_JOB_NAME": "j",
        "EDL_JOB_TOKEN": "secret",
        "EDL_SERVICE_URL": f"http://127.0.0.1:{service.port}",
    }
    trainer = Trainer(env)
    with pytest.raises(SettingError, match="give its spec a `master` role"):
        trainer.__enter__()
    service.close()
    with pytest.raises(SettingError, match="EDL_JOB_TOKEN"):
        Trainer({"MASTER": "here:1"})


@pytest.mark.parametrize(
    ("example", "settings", "quantity", "below"),
    [
        ("fit_a_line", {"SAMPLES": "4096", "PADDLE_INIT_NUM_PASSES": "5"}, "mean squared error", 0.1),
        ("fit_a_line", {"SAMPLES": "4096", "HIDDEN": "16", "PADDLE_INIT_NUM_PASSES": "4"}, "mean squared error", 1.0),
        ("ctr", {"SAMPLES": "16384", "PADDLE_INIT_NUM_PASSES": "2"}, "log loss", 0.6),
    ],
)
def test_the_examples_learn_as_they_are(
    tmp_path: Path, example: str, settings: dict[str, str], quantity: str, below: float
) -> None:
    env = {**os.environ, **settings, "LEDGER": str(tmp_path / "ledger"), "CHUNKS": "16"}
    script = ROOT / "examples" / example / "train.py"
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=100, check=True)
    assert float(done.stdout.split(quantity)[1].split()[0].strip(",")) < below
    lines = [json.loads(line) for line in (tmp_path / "ledger").read_text().splitlines()]
    passes = int(settings["PADDLE_INIT_NUM_PASSES"])
    for kind in ("trained", "acknowledged"):
        assert Counter((line["pass"], line["chunk"]) for line in lines if line["kind"] == kind) == Counter(
            (index, chunk) for index in range(passes) for chunk in range(16)
        )
