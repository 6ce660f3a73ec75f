"""Workers that live on: members come and go in every way, no step is lost, no sample is seen twice or never."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from edl.protocol.rounds import RoundChange
from edl.runtime.torch.warm_workers import Zygote
from edl.torch.data.order import order_of
from tests.tier_frameworks.torchrun import aimed_living
from tests.tier_frameworks.torchrun.aimed import Hit
from tests.tier_frameworks.torchrun.group import until
from tests.tier_frameworks.torchrun.pods import Pods, job

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
AIMED = Path(aimed_living.__file__)


@contextlib.contextmanager
def aimed(folder: Path, zygote: Zygote, **settings: Any) -> Iterator[Pods]:
    with job(folder, zygote, script=AIMED, **settings) as made:
        (folder / "aim").mkdir()
        yield made


def aim(made: Pods, place: str) -> None:
    (made.folder / "aim" / f"{place}.aim").touch()


def hit(made: Pods) -> Hit:
    """Who stays at the place that was aimed at."""

    def ask() -> Hit | None:
        for file in (made.folder / "aim").glob("*.hit"):
            _, pod, pid, _ = file.name.split(".")
            return Hit(file, pod, int(pid))
        return None

    return until(ask, "a worker at the place")


def test_members_join_leave_and_are_killed(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote) as made:
        made.start("a", "b")
        made.until_steps(2)
        first = made.pids()
        made.start("c")
        made.until_steps(3)
        print(f"join: {made.pause(2, 3) * 1000:.0f} ms")
        assert made.pids() > first, "no worker was started anew"
        made.terminate("b")
        made.until_steps(2)
        print(f"leave: {made.pause(3, 2) * 1000:.0f} ms")
        made.kill("c")
        made.until_steps(1)
        print(f"kill: {made.pause(2, 1) * 1000:.0f} ms")
        assert len(made.pids()) == 3
        made.assert_exact()


def test_many_join_at_once_and_two_are_killed_at_once_the_first_rank_among_them(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote) as made:
        made.start("a")
        made.until_steps(1)
        made.start("b", "c", "d")
        made.until_steps(4)
        first, second = made.leader.members[:2]
        victims = [made.pods.pop(first), made.pods.pop(second)]
        for victim in victims:
            victim.kill()
        made.until_steps(2)
        assert len(made.pids()) == 4
        made.assert_exact()


def test_a_killed_worker_process_comes_back_as_a_new_member(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote) as made:
        made.start("a", "b", restarts=3)
        made.until_steps(2)
        (pid,) = made.pods["b"].pids()
        os.kill(pid, signal.SIGKILL)
        until(lambda: len(made.pids()) == 3, "its successor")
        made.until_steps(2)
        made.assert_exact()


def test_a_joiner_that_dies_while_it_prepares_stops_nobody(tmp_path: Path, zygote: Zygote) -> None:
    with aimed(tmp_path, zygote) as made:
        made.start("a", "b")
        made.until_steps(2)
        aim(made, "joining")
        made.start("c")
        assert hit(made).pod == "c"
        made.until_steps(2)  # nobody waits for it
        made.kill("c")
        made.until_steps(2)
        made.start("d")
        made.until_steps(3)
        made.assert_exact()


@pytest.mark.parametrize("place", ["sending", "summed", "committed"])
def test_a_worker_is_killed_at_the_worst_moment(tmp_path: Path, zygote: Zygote, place: str) -> None:
    """While it sends the state to a newcomer; between sum and step; right after its own step."""
    with aimed(tmp_path, zygote) as made:
        made.start("a", "b")
        made.until_steps(2)
        aim(made, place)
        made.start("c")
        victim = hit(made)
        made.kill(victim.pod)
        made.until_steps(2)
        made.assert_exact()


def test_a_worker_that_is_stopped_is_replaced_by_its_agent(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote, silence=8.0) as made:
        made.start("a", "b")
        made.until_steps(2)
        (pid,) = made.pods["b"].pids()
        os.kill(pid, signal.SIGSTOP)
        until(lambda: len(made.pids()) == 3, "its successor")
        made.until_steps(2)
        assert pid not in made.pods["b"].pids()
        made.assert_exact()


def test_the_service_is_lost_in_the_middle_of_a_change(tmp_path: Path, zygote: Zygote) -> None:
    with aimed(tmp_path, zygote) as made:
        made.start("a", "b")
        made.until_steps(2)
        aim(made, "joining")
        made.start("c")
        held = hit(made)
        made.leader.down()
        held.file.unlink()
        made.until_steps(3)  # the round had formed: nobody needs the service to enter it
        made.leader.up()
        assert all(pod.connection.flush(60.0) for pod in made.pods.values()), "all have come back"
        made.kill("a")
        made.until_steps(2)
        made.assert_exact()


def test_below_the_minimum_workers_keep_their_state_until_others_come(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote, minimum=2) as made:
        made.start("a", "b")
        made.until_steps(2)
        made.kill("b")
        until(lambda: made.pods["a"].handler.hub.idle, "a worker that waits")
        done = made.lines("did")[-1]["step"]
        made.start("c")
        made.until_steps(2)
        assert len(made.pids()) == 3
        assert done + 1 in {line["step"] for line in made.lines("did")}
        made.assert_exact()


def test_when_all_are_lost_the_last_checkpoint_counts(tmp_path: Path, zygote: Zygote) -> None:
    saved = tmp_path / "model.pt"
    with job(tmp_path, zygote) as made:
        made.start("a", "b", checkpoint=saved, every=5)
        made.until_steps(2, more=12)
        for name in ("a", "b"):
            made.kill(name)
        step = torch.load(saved, weights_only=True)["cursor"]["step"]
        assert step >= 5
        made.start("c", checkpoint=saved, every=5)
        made.until_steps(1, more=12)
        assert min(line["step"] for line in made.lines("did") if line["world"] == 1) == step + 1
        made.assert_exact()


def test_an_exception_of_the_script_is_its_own_fault(tmp_path: Path, zygote: Zygote) -> None:
    with aimed(tmp_path, zygote) as made:
        made.start("a")
        made.until_steps(1)
        made.start("b", env={"FAIL_AT": str(made.lines("did")[-1]["step"] + 200)}, pause=0.0)
        made.until_steps(2)
        assert made.code("b") == 1
        made.until_steps(1)
        assert "a fault of the script" in made.report()
        made.assert_exact()


def test_workers_of_a_pod_come_and_go_together(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote) as made:
        made.start("a", workers=2)
        made.until_steps(2)
        made.start("b", workers=2)
        made.until_steps(4)
        os.kill(made.pods["b"].pids()[1], signal.SIGKILL)
        made.until_steps(2)
        made.assert_exact()


def test_one_that_is_asked_to_leave_is_let_go(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote) as made:
        made.leader.edit(pods=frozenset("abc"))
        made.start("a", "b", "c")
        made.until_steps(3)
        made.leader.edit(leaving=("b",), target=2)
        made.until_steps(2)
        made.terminate("b")
        made.until_steps(2)
        assert len(made.pids()) == 3
        made.assert_exact()


def test_members_that_do_not_reach_each_other_part_and_one_of_them_is_replaced(tmp_path: Path, zygote: Zygote) -> None:
    with aimed(tmp_path, zygote) as made:
        made.start("a", "b", "c")
        made.until_steps(3)
        first, second = made.leader.members[1:]
        (made.folder / "aim" / "parted").write_text(f"{first} {second}")
        made.until_steps(2)
        assert made.code(second) == 1, "its pod fails, and the rules for failures decide"
        assert made.code_now(first) is None
        made.start("d")
        made.until_steps(3)
        made.assert_exact()


def test_one_that_does_not_reach_the_service_waits_and_comes_back_as_it_was(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote) as made:
        made.start("a", "b")
        made.until_steps(2)
        made.leader.shut_out("b", made.pods["b"].connection)
        made.until_steps(1)  # the other goes on without it
        until(lambda: made.pods["b"].handler.hub.idle, "a worker that waits")
        made.leader.let_in(made.pods["b"].connection)
        made.until_steps(2)
        assert len(made.pids()) == 2, "with the same processes"
        made.assert_exact()


def changed(made: Pods, size: int) -> RoundChange:
    """How the workers became so many, as all of them told the leader."""

    def ask() -> RoundChange | None:
        found = made.leader.change
        return found if found is not None and found.after == size else None

    return until(ask, f"a change to {size} workers")


def test_the_leader_hears_how_each_change_was_made(tmp_path: Path, zygote: Zygote) -> None:
    with job(tmp_path, zygote) as made:
        made.start("a", "b")
        made.until_steps(2)
        made.start("c")
        joined = changed(made, 3)
        assert (joined.before, joined.in_place, joined.lost) == (2, True, 0)
        assert joined.sent > 1000
        assert joined.pause > 0
        made.until_steps(3)
        made.kill("c")
        killed = changed(made, 2)
        assert (killed.before, killed.in_place, killed.lost, killed.sent) == (3, True, 0, 0)
        until(lambda: (found := made.leader.progress) and found.throughput, "a report of the pace")
        progress = made.leader.progress
        assert progress is not None
        assert (progress.tuned_batch, progress.batch) == (96, 96)
        assert progress.workers in (2, 3)


def test_the_result_is_that_of_one_worker_that_was_never_disturbed(tmp_path: Path, zygote: Zygote) -> None:
    """Parts of a share, processes that load the data, a join and a kill; and the end is the end for all."""
    with job(tmp_path, zygote) as made:
        options: dict[str, Any] = {"epochs": 6, "pause": 0.06, "micro": 20, "loaders": 1}
        made.start("a", "b", **options)
        made.until_steps(2)
        made.start("c", **options)
        made.until_steps(3)
        made.kill("b")
        assert (made.code("a"), made.code("c")) == (0, 0)
        made.start("late", **options)
        assert made.code("late") == 0
        made.assert_exact()
        results = made.results()
        assert len(results) == 2
    alone = trained_alone(6)
    for result in results:
        assert result["step"] == 6 * 11
        assert result["lr"] == pytest.approx([0.05 * 0.9])
        for name, value in alone.items():
            assert torch.allclose(result["model"][name], value, atol=2e-3), name


def trained_alone(epochs: int) -> dict[str, torch.Tensor]:
    from examples.pytorch.elastic import Waves

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.9)
    data = Waves(1000)
    samples = [data[index] for index in range(1000)]
    sampler = torch.utils.data.RandomSampler(data)
    for epoch in range(epochs):
        order = order_of(sampler, 1000, torch.initial_seed() >> 1, epoch)
        for at in range(0, 1000, 96):
            batch = [samples[index] for index in order[at : at + 96]]
            optimizer.zero_grad()
            inputs, wanted = (torch.stack([sample[part] for sample in batch]) for part in (0, 1))
            torch.nn.functional.mse_loss(model(inputs), wanted).backward()
            optimizer.step()
            schedule.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


def test_a_change_takes_a_few_steps_at_most(tmp_path: Path, zygote: Zygote) -> None:
    """No bound in seconds: a machine may be slow. In steps of the job's own pace it is a matter of the protocol."""
    with job(tmp_path, zygote) as made:
        made.start("a", "b", pause=0.5)
        made.until_steps(2)
        began = time.monotonic()
        made.start("c", pause=0.5)
        made.until_steps(3)
        steps = {line["step"] for line in made.lines("did") if line["at"] > began}
        assert len(steps) >= 4, "training went on meanwhile"
        made.assert_exact()
