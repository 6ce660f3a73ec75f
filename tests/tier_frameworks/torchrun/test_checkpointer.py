"""A plain DDP script with a Checkpointer: what is killed loses its last save at most, what changes loses nothing.

The workers are real processes and start anew, as torchrun has it; the last test has torchrun itself.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.runtime.torch.warm_workers import Zygote
from tests.tier_frameworks.torchrun.group import ROOT, group, until
from tests.tier_frameworks.torchrun.pods import Pods, job
from tests.tier_frameworks.torchrun.steps import NEVER, Steps

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
SCRIPT = ROOT / "examples" / "pytorch" / "train_checkpointer.py"


@pytest.fixture
def made(tmp_path: Path, zygote: Zygote) -> Iterator[Pods]:
    defaults = {"steps": NEVER, "checkpoint": tmp_path / "saved", "write_every": NEVER}
    with job(tmp_path, zygote, script=SCRIPT, defaults=defaults) as pods:
        yield pods


@pytest.mark.parametrize("every", [1, 5])
def test_a_killed_worker_costs_the_steps_since_the_last_save(made: Pods, every: int) -> None:
    steps = Steps(made.trace)
    made.start("a", "b", restarts=3, every=every)
    steps.until_steps(2, more=8)
    known = steps.pids()
    os.kill(made.pods["b"].workers[0].pid, signal.SIGKILL)
    until(lambda: steps.pids() - known, "workers that started anew")
    last = max(line["step"] for line in steps.lines() if line["pid"] in known)
    first = steps.first_of_others(known)
    assert last - every <= first - 1 <= last
    if every > 1:
        assert (first - 1) % every == 1, "copied at the first step and every five from there"
    steps.until_steps(2)
    steps.assert_in_step()


def test_a_join_and_a_leave_lose_nothing_though_no_save_was_due(made: Pods) -> None:
    steps = Steps(made.trace)
    made.leader.edit(pods=frozenset("abc"))
    made.start("a", "b", every=NEVER)
    steps.until_steps(2)
    made.start("c", every=NEVER)
    steps.until_steps(3)
    made.terminate("b")
    steps.until_steps(2)
    made.leader.edit(leaving=("c",), target=1)
    steps.until_steps(1)
    made.terminate("c")
    steps.until_steps(1)
    steps.assert_nothing_twice()
    steps.assert_in_step()
    assert {line["step"] for line in steps.lines()} == set(range(1, steps.last() + 1)), "none is missing"


def test_a_lost_pod_costs_the_last_save_and_its_successor_gets_it_from_a_neighbour(made: Pods, tmp_path: Path) -> None:
    steps = Steps(made.trace)
    made.start("a", "b")
    steps.until_steps(2)
    made.kill("a")  # the first rank, which has written the first save and nothing since
    steps.until_steps(1)
    made.start("c")
    steps.until_steps(2)
    assert steps.last() > 6
    steps.assert_in_step()
    repeated = [line["step"] for line in steps.lines() if line["rank"] == 0]
    assert len(repeated) - len(set(repeated)) <= 1
    assert "rank 0 of 1 from step" in made.report()
    assert "a neighbour" in (tmp_path / "c.log").read_text()


def test_when_all_are_lost_the_newest_file_counts(made: Pods, tmp_path: Path) -> None:
    steps = Steps(made.trace)
    made.start("a", "b", workers=2, write_every=0)
    steps.until_steps(4)
    until(lambda: len(list((tmp_path / "saved").glob("step-*.pt"))) == 2, "two files")
    for name in ("a", "b"):
        made.kill(name)
    known, last = steps.pids(), steps.last()
    newest = max(int(file.stem.partition("-")[2]) for file in (tmp_path / "saved").glob("step-*.pt"))
    made.start("c", write_every=0)
    steps.until_steps(1)
    assert steps.first_of_others(known) == newest + 1
    assert newest <= last
    steps.assert_in_step()


def test_a_job_whose_pods_all_leave_goes_on_where_it_was(made: Pods) -> None:
    steps = Steps(made.trace)
    made.start("a", every=NEVER)
    steps.until_steps(1)
    made.terminate("a")
    known, last = steps.pids(), steps.last()
    made.start("b", every=NEVER)
    steps.until_steps(1)
    assert steps.first_of_others(known) == last + 1
    steps.assert_nothing_twice()


def test_torchrun_waits_for_the_save_before_it_starts_workers_anew(tmp_path: Path) -> None:
    with group(tmp_path, script=SCRIPT) as agents:
        steps = Steps(agents.trace)
        rarely = ("--steps", str(NEVER), "--pause", "0.05", "--every", str(NEVER), "--write-every", str(NEVER))
        words = (*rarely, "--checkpoint", str(tmp_path / "saved"), "--trace", str(agents.trace))
        agents.leader.edit(target=2)
        agents.start("a", "b", args=words)
        steps.until_steps(2)
        agents.agents["b"].send_signal(signal.SIGTERM)
        steps.until_steps(1)
        assert agents.code("b") != 0
        steps.assert_nothing_twice()
        assert "have saved" in agents.report()


def test_the_trainer_of_hugging_face_loses_nothing_by_a_leave(tmp_path: Path, zygote: Zygote) -> None:
    defaults = {"steps": NEVER, "checkpoint": tmp_path / "saved"}
    script = Path(__file__).with_name("trainer_in_memory.py")
    with job(tmp_path, zygote, script=script, defaults=defaults) as made:
        steps = Steps(made.trace)
        made.start("a", "b", pause=0.05)
        steps.until_steps(2)
        made.terminate("b")
        steps.until_steps(1)
        steps.assert_nothing_twice()
        steps.assert_in_step()
        rates = {line["step"]: line["lr"] for line in steps.lines()}
        ordered = [rates[step] for step in sorted(rates)]
        assert sorted(rates) == list(range(1, len(rates) + 1)), "none is missing"
        assert ordered == sorted(ordered, reverse=True), "the schedule went on"
