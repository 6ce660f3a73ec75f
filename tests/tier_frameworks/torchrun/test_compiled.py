"""Compiled models: graphs outlive every change of members, for nothing that they were compiled for has changed."""

from pathlib import Path

import pytest
import torch

import edl.torch as elastic
from edl.runtime.torch.warm_workers import Zygote
from tests.tier_frameworks.torchrun.pods import Pods, job

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
SCRIPT = Path(__file__).with_name("compiled_living.py")


def compilations(made: Pods, pid: int) -> int:
    return len((made.trace / f"{pid}.compiled").read_text().splitlines())


def test_graphs_are_kept_through_a_join_a_leave_and_a_kill(tmp_path: Path, zygote: Zygote) -> None:
    """The last batch of an epoch is short, so that one epoch has made the graph one for any size of a batch."""
    with job(tmp_path, zygote, script=SCRIPT) as made:
        made.start("a", "b", samples=300)
        made.until_steps(2, more=8)
        before = {pid: compilations(made, pid) for pid in made.pids()}
        assert set(before.values()) == {2}, "the first batch, and the first of another size"
        made.start("c", samples=300)
        made.until_steps(3, more=8)
        made.terminate("b")
        made.until_steps(2)
        made.kill("c")
        made.until_steps(1, more=8)
        assert {pid: compilations(made, pid) for pid in before} == before
        made.assert_exact(300)


def test_a_checkpoint_of_a_compiled_model_is_one_of_the_model(tmp_path: Path) -> None:
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    first = elastic.Checkpointer(tmp_path, write_every=0.0)
    first.save(1, model=torch.compile(model, backend="eager"))
    assert first.flush(30.0)
    assert elastic.Checkpointer(tmp_path).load(model=other) == 1
    assert torch.equal(model.weight, other.weight)
