"""Real torchrun agents with an unmodified script, and everything that can happen to them."""

import runpy
import signal
import time
from pathlib import Path

import psutil
import pytest
import torch

from tests.tier_frameworks.torchrun.group import SCRIPT, Group, end, group, until

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]


def ranks(made: Group) -> dict[str, int]:
    return {pod: rank for rank, pod in enumerate(made.leader.members)}


def test_members_come_and_go(tmp_path: Path) -> None:
    with group(tmp_path) as made:
        made.leader.edit(target=3)
        made.train("a", "b", "c")
        made.until_training(3)
        before = ranks(made)

        made.kill("c" if before["c"] else "b")  # all that runs in one pod
        made.until_training(2)
        assert made.leader.number == 2
        assert all(made.agents[pod].poll() is None for pod in made.leader.members)
        of_two = ranks(made)
        assert all(of_two[pod] == before[pod] for pod in of_two if before[pod] < 2), "a survivor keeps its rank"

        made.leader.edit(target=3)
        made.train("d")  # its successor
        made.until_training(3)
        assert made.leader.number == 3
        assert ranks(made).items() >= of_two.items(), "a survivor keeps its rank"

        made.agents["a"].send_signal(signal.SIGTERM)
        made.until_training(2)
        assert made.leader.number == 4
        assert made.code("a") != 0

        done = made.steps()
        assert max(line["step"] for line in done) > 9
        saved = torch.load(tmp_path / "model.pt", weights_only=True)["step"]
        assert saved % 5 == 0, "a checkpoint is whole, whoever was killed while writing one"
        assert "workers start from a warm process" in made.report()
        assert "starts cold" not in made.report()


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_killed_worker_process(tmp_path: Path, restarts: int) -> None:
    with group(tmp_path) as made:
        made.leader.edit(target=2)
        made.train("a", "b", env={"PET_MAX_RESTARTS": str(restarts)})
        made.until_training(2)
        (victim,) = made.workers("b")[-1:]
        end(victim)
        if restarts:
            made.until_training(2)
            assert all(agent.poll() is None for agent in made.agents.values())
        else:
            assert made.code("b") == 1, "its own failure, and nothing is left to restart it"
            made.until_training(1)
            assert made.agents["a"].poll() is None, "which is not the failure of others"
        assert made.leader.number == 2


def test_a_killed_agent_takes_its_workers_along(tmp_path: Path) -> None:
    with group(tmp_path) as made:
        made.leader.edit(target=2)
        made.train("a", "b")
        made.until_training(2)
        below = made.tree("b")[1:]
        end(made.agents["b"].pid)
        made.agents["b"].wait()
        made.until_training(1)
        until(lambda: not any(process.is_running() for process in below), "end of the orphans")


def test_the_service_goes_and_comes(tmp_path: Path) -> None:
    with group(tmp_path) as made:
        made.leader.edit(target=2)
        made.train("a", "b")
        made.until_training(2)
        made.leader.down()
        made.until_training(2, more=10)  # nobody is there to ask, and nobody needs to
        made.leader.up()
        made.until_training(2, more=30)
        assert made.leader.number == 1, "no regroup"

        end(made.workers("b")[-1])  # while there is no leader, in the middle of which they have to meet
        made.leader.down()
        time.sleep(1.0)
        made.leader.up()
        made.until_training(1)
        assert made.leader.members == ["a"]


def test_the_end_is_the_end_for_all_and_for_latecomers(tmp_path: Path) -> None:
    with group(tmp_path) as made:
        made.leader.edit(target=2)
        made.train("a", "b", steps=20, pause=0.0)
        assert (made.code("a"), made.code("b")) == (0, 0)
        made.train("late", steps=20)
        assert made.code("late") == 0
        assert torch.load(tmp_path / "model.pt", weights_only=True)["step"] == 20


def test_a_script_that_cannot_be_imported_fails_at_once(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("import no_such_module\n")
    with group(tmp_path, script=script) as made:
        made.leader.edit(target=2)
        made.start("a", "b")
        assert (made.code("a"), made.code("b")) == (1, 1)
        assert made.leader.number <= 3, "each was blamed once and then all, nobody spins"
        assert "No module named 'no_such_module'" in made.report()


def test_a_worker_that_hangs_in_a_collective_is_interrupted(tmp_path: Path) -> None:
    """The peer's process is stopped, then its pod is said to be gone: nothing breaks by itself."""
    with group(tmp_path) as made:
        made.leader.edit(target=2, pods=frozenset("ab"))
        made.train("a", "b")
        made.until_training(2)
        tree = made.tree("b")
        for process in reversed(tree):
            process.suspend()
        until(lambda: all(one.status() == psutil.STATUS_STOPPED for one in tree), "the peer is stopped")
        stuck = made.workers("a")
        made.leader.edit(pods=frozenset("a"))  # as the operator says of a node that is lost
        made.until_training(1)
        assert made.workers("a") != stuck


def test_what_a_step_adds_up_to_does_not_depend_on_who_came_and_went(tmp_path: Path) -> None:
    """The same model in the end, up to the order of sums, as one that was trained alone and never disturbed."""
    with group(tmp_path) as made:
        made.leader.edit(target=2)
        made.train("a", "b", steps=80, pause=0.03)
        made.until_training(2)
        made.kill("b")
        assert made.code("a") == 0
        assert {line["world"] for line in made.steps()} == {1, 2}
    disturbed = torch.load(tmp_path / "model.pt", weights_only=True)
    assert disturbed["step"] == 80
    for name, value in trained_alone(80).items():
        assert torch.allclose(disturbed["model"][name], value, atol=1e-4), name


def trained_alone(steps: int) -> dict[str, torch.Tensor]:
    script = runpy.run_path(str(SCRIPT))
    model, optimizer = script["network"]()
    for step in range(steps):
        inputs, wanted = script["batch_of"](step, 0, 1, 96)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
    found: dict[str, torch.Tensor] = model.state_dict()
    return found


def test_the_trainer_of_hugging_face_resumes_when_a_worker_is_killed(tmp_path: Path) -> None:
    script = SCRIPT.with_name("train_transformers.py")
    run = tmp_path / "run"
    with group(tmp_path, script=script) as made:
        made.leader.edit(target=2)
        args = ("--steps", "300", "--every", "20", "--output", str(run))
        made.start("a", "b", args=args, env={"EDL_WARM_IMPORTS": "transformers,accelerate"})
        until(lambda: any(run.glob("checkpoint-*/trainer_state.json")), "a checkpoint")
        made.kill("b")
        assert made.code("a", timeout=200) == 0
        assert "finished at step 300" in made.report()
        assert made.leader.number == 2
