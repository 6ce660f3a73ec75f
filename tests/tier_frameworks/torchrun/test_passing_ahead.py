"""A join for which most of the state is passed ahead: the pause holds what changed, and whatever happens meanwhile
costs nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edl.runtime.torch.warm_workers import Zygote
from tests.tier_frameworks.torchrun import frozen_living
from tests.tier_frameworks.torchrun.group import until
from tests.tier_frameworks.torchrun.pods import Pods, job
from tests.tier_frameworks.torchrun.test_living_workers import aim, changed, hit

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
FROZEN = frozen_living.ROWS * frozen_living.COLUMNS * 4  # bytes
SHARD = 1024 * 512 * 4 // 2


@pytest.fixture
def made(tmp_path: Path, zygote: Zygote) -> Iterator[Pods]:
    with job(tmp_path, zygote, script=Path(frozen_living.__file__)) as pods:
        (tmp_path / "aim").mkdir()
        yield pods


def start_two(made: Pods, **options: Any) -> None:
    made.start("a", "b", **options)
    made.until_steps(2 * options.get("workers", 1))


def test_a_newcomer_receives_only_what_changed_in_the_pause(made: Pods) -> None:
    start_two(made)
    made.start("c")
    assert 1000 < changed(made, 3).sent < FROZEN / 100
    made.until_steps(3)
    made.kill("a")
    made.until_steps(2)
    assert len(made.pids()) == 3
    made.assert_exact()


def test_training_goes_on_while_state_is_passed(made: Pods) -> None:
    start_two(made)
    aim(made, "passing")
    made.start("c")
    held = hit(made)
    made.until_steps(2, more=10)
    held.file.unlink()
    assert changed(made, 3).sent < FROZEN / 100
    made.until_steps(3)
    made.assert_exact()


def test_one_worker_passes_its_state_to_several(made: Pods) -> None:
    made.start("a")
    made.until_steps(1)
    made.start("b", "c", "d")
    assert changed(made, 4).sent < 3 * FROZEN / 100
    made.until_steps(4)
    made.assert_exact()


@pytest.mark.parametrize("kind", frozen_living.WRITES)
def test_what_is_written_after_it_was_passed_is_sent_again(made: Pods, kind: str) -> None:
    start_two(made)
    aim(made, "passed")
    made.start("c")
    held = hit(made)
    step = made.lines("did")[-1]["step"] + 20
    asked = made.folder / "aim" / "asked"
    asked.write_text(f"{step} {kind}")
    asked.rename(made.folder / "aim" / "write")
    until(lambda: made.lines("did")[-1]["step"] > step, "the steps until then")
    held.file.unlink()
    assert FROZEN < changed(made, 3).sent < 2 * FROZEN
    made.until_steps(3)
    made.assert_exact()


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_who_passes_state_is_lost_in_the_middle(made: Pods, end: str) -> None:
    start_two(made)
    aim(made, "passing")
    made.start("c")
    getattr(made, end)(hit(made).pod)
    made.until_steps(2)
    assert len(made.pids()) == 3
    made.assert_exact()


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_a_newcomer_is_lost_in_the_middle(made: Pods, end: str) -> None:
    start_two(made)
    aim(made, "receiving")
    made.start("c")
    assert hit(made).pod == "c"
    getattr(made, end)("c")
    made.until_steps(2)
    made.start("d")
    made.until_steps(3)
    made.assert_exact()


@pytest.mark.parametrize("event", ["join", "kill"])
def test_a_newer_round_does_not_wait_for_what_is_passed(made: Pods, event: str) -> None:
    """Who passes state, or takes it, is held all the time."""
    start_two(made)
    aim(made, "passing")
    made.start("c")
    held = hit(made)
    if event == "join":
        made.start("d")
        made.until_steps(4)
    else:
        made.kill(next(pod for pod in ("a", "b") if pod != held.pod))
        made.until_steps(2)
    assert held.file.exists()
    made.assert_exact()


def test_workers_that_share_a_model_get_their_own_part_ahead(made: Pods) -> None:
    start_two(made, workers=2, env={"SHARDED": "1"})
    made.start("c", workers=2, env={"SHARDED": "1"})
    assert 1000 < changed(made, 3).sent < SHARD / 10
    made.until_steps(6)
    made.kill("a")
    made.until_steps(4)
    made.assert_exact()


def test_a_pod_is_killed_while_one_of_its_workers_passes_its_part(made: Pods) -> None:
    start_two(made, workers=2, env={"SHARDED": "1"})
    aim(made, "passed")
    made.start("c", workers=2, env={"SHARDED": "1"})
    made.kill(hit(made).pod)
    made.until_steps(4)
    made.assert_exact()
