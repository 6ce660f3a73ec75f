"""Models that no rank has as a whole: a pod may be lost, any number of ranks goes on, and the training is the same."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from edl.runtime.torch.warm_workers import Zygote
from edl.torch.checkpoints.folder import CheckpointFolder, ShardFile
from edl.torch.checkpoints.shards import newest_whole, overlap
from tests.tier_frameworks.torchrun import sharded
from tests.tier_frameworks.torchrun.group import until
from tests.tier_frameworks.torchrun.pods import Pods, job
from tests.tier_frameworks.torchrun.steps import NEVER, Steps

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]


@pytest.fixture
def made(tmp_path: Path, zygote: Zygote) -> Iterator[Pods]:
    defaults = {"steps": NEVER, "checkpoint": tmp_path / "saved", "write_every": NEVER}
    with job(tmp_path, zygote, script=Path(sharded.__file__), defaults=defaults) as pods:
        yield pods


def assert_as_if_alone(steps: Steps) -> None:
    """Weights and moments were put together rightly, or what follows would differ."""
    lines = steps.lines()
    expected = list(islice(sharded.alone(), max(line["step"] for line in lines)))
    for line in lines:
        assert line["model"] == pytest.approx(expected[line["step"] - 1], abs=2e-3), line


def test_a_lost_pod_costs_a_save_or_two_and_the_rest_go_on_with_its_shard(made: Pods) -> None:
    steps = Steps(made.trace)
    made.start("a", "b", workers=2)
    steps.until_steps(4, more=6)
    made.kill("b")
    steps.until_steps(2, more=6)
    known, last = steps.pids(), max(line["step"] for line in steps.lines() if line["world"] == 4)
    first = min(line["step"] for line in steps.lines() if line["world"] == 2)
    assert last - 1 <= first <= last + 1, "the copies of neighbours are one save behind at most"
    made.start("c", workers=2)
    steps.until_steps(4)
    assert steps.pids() > known
    assert_as_if_alone(steps)
    assert "memory" in made.report()


def test_a_model_that_is_spread_within_a_pod_and_copied_across_pods(made: Pods) -> None:
    steps = Steps(made.trace)
    made.start("a", "b", workers=2, in_pod=2)
    steps.until_steps(4)
    made.kill("a")
    steps.until_steps(2)
    made.start("c", workers=2, in_pod=2)
    steps.until_steps(4)
    assert_as_if_alone(steps)


def test_a_leave_loses_nothing_though_no_save_was_due(made: Pods) -> None:
    steps = Steps(made.trace)
    made.start("a", "b", every=NEVER)
    steps.until_steps(2)
    made.terminate("a")
    steps.until_steps(1)
    steps.assert_nothing_twice()
    assert_as_if_alone(steps)


def test_when_all_are_lost_the_files_of_all_ranks_count(made: Pods, tmp_path: Path) -> None:
    steps = Steps(made.trace)
    made.start("a", workers=2, write_every=0)
    steps.until_steps(2)
    folder = CheckpointFolder(tmp_path / "saved", 2)

    def whole() -> bool:
        held = [[one.step, one.branch, one.index, one.count, "disk"] for one in folder.shards()]
        newest = newest_whole([held], set())
        return newest is not None and newest[0] > 3

    until(whole, "a file of each rank")
    made.kill("a")
    known = steps.pids()
    made.start("b", write_every=0)
    steps.until_steps(1)
    assert steps.first_of_others(known) > 3
    assert "disk" in (tmp_path / "b.log").read_text()
    assert_as_if_alone(steps)


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (([0, 0], [4, 3]), ([2, 0], [4, 3]), ([2, 0], [2, 3])),
        (([0], [4]), ([4], [4]), None),
        (([1], [0]), ([0], [4]), None),
        (([], []), ([], []), ([], [])),
    ],
)
def test_parts_of_a_tensor_that_two_ranks_have(one: Any, other: Any, common: Any) -> None:
    assert overlap(one, other) == common


def test_a_checkpoint_is_one_only_if_all_its_shards_are_of_the_same_training() -> None:
    held = [[[7, 1, 0, 2, "memory"], [9, 1, 0, 2, "memory"]], [[7, 1, 1, 2, "disk"], [9, 2, 1, 2, "memory"]]]
    assert newest_whole(held, set()) == (7, 1, 2)
    assert newest_whole(held, {(7, 1, 2)}) is None


def test_files_of_shards_are_bounded_whatever_the_number_of_ranks_was(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, 2)
    for step, count in ((1, 3), (2, 3), (3, 2), (4, 2)):
        for index in range(count):
            folder.write(ShardFile(step, index, count, 5), {"x": torch.zeros(1)})
    folder.write(ShardFile(5, 0, 2, 5), {"x": torch.zeros(1)})
    assert sorted({one.step for one in folder.shards()}) == [3, 4, 5]
