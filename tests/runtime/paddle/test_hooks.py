"""The hooks around Paddle's own code, without Paddle; with it in `tests/tier_frameworks/paddle`."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.jobs.admission import check
from edl.jobs.training.types import TrainingJob
from edl.paddle import main
from edl.protocol.job_state import JobView, RoleView, SlotView
from edl.protocol.slots import Slot
from edl.runtime.paddle.hooks import FileQueue, ModelInitializer
from edl.runtime.paddle.servers import (
    LostServerError,
    Server,
    Servers,
    await_loss,
    await_servers,
    check_reachable,
    check_unchanged,
    model_servers,
    servers_of,
)
from edl.runtime.trainer_api.task import Task

TWO = (Server(0, 1, "127.0.0.1:1"), Server(1, 1, "127.0.0.1:2"))


@dataclass
class Service:
    """The job service as far as Paddle needs it: a view of the job per call, and values."""

    views: list[Any] = field(default_factory=list)
    values: dict[str, bytes] = field(default_factory=dict)

    def job(self, after: str = "", wait: float = 0.0) -> Any:
        return self.views.pop(0)

    def get(self, key: str) -> tuple[bytes, int] | None:
        return (self.values[key], 1) if key in self.values else None

    def put(self, key: str, data: bytes, *, version: int, slot: Slot, stop: Any) -> int:
        assert key not in self.values
        self.values[key] = data
        return 1


def view(*slots: tuple[int, str, bool]) -> JobView:
    """Epoch, address, gone."""
    held = {
        index: SlotView(epoch=epoch, holder="p/1", address=address, gone=gone)
        for index, (epoch, address, gone) in enumerate(slots)
    }
    return JobView(roles={"pserver": RoleView(slots=held)})


A, B = (1, "127.0.0.1:1", False), (1, "127.0.0.1:2", False)


@pytest.mark.parametrize(
    ("seen", "servers"),
    [
        (None, None),
        (JobView(), None),
        (view(A), None),
        (view(A, (1, "", False)), None),
        (view(A, (1, "127.0.0.1:2", True)), None),
        (view(A, B), TWO),
        (view(A, B, (1, "x:3", False)), TWO),
    ],
    ids=["nothing known", "no role", "one is missing", "one has not said where", "one is gone", "all", "too many"],
)
def test_the_list_of_servers_is_whole_or_not_there(seen: Any, servers: Servers | None) -> None:
    assert servers_of(seen, 2) == servers


def test_it_waits_until_all_servers_have_said_where_they_are() -> None:
    service = Service([view(A), view(A), view(A, B)])
    waited: list[float] = []
    assert await_servers(service, 2, pause=waited.append) == TWO  # type: ignore[arg-type]  # quacks
    assert len(waited) == 2


def test_another_process_in_the_place_of_a_server_is_a_loss() -> None:
    check_unchanged(None, TWO)
    check_unchanged(TWO, TWO)
    with pytest.raises(LostServerError, match="parameter server 1 was lost with its part of the model"):
        check_unchanged(TWO, (TWO[0], Server(1, 2, "127.0.0.1:2")))


def test_a_loss_is_noticed_while_the_trainer_hangs() -> None:
    missing = view((1, "127.0.0.1:1", False), (1, "127.0.0.1:2", True))
    replaced = view((1, "127.0.0.1:1", False), (2, "127.0.0.1:3", False))
    service, looks = Service([None, missing, replaced]), list[float]()
    assert "parameter server 1 was lost" in str(await_loss(service, TWO, pause=looks.append))  # type: ignore[arg-type]  # quacks
    assert (len(looks), service.views) == (3, [])


def test_a_server_that_does_not_listen_is_a_loss() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = Server(0, 1, f"127.0.0.1:{listener.getsockname()[1]}")
        check_reachable((here,))
    with pytest.raises(LostServerError, match="parameter server 0 at 127"):
        check_reachable((here,))


@pytest.mark.parametrize("index", [0, 3])
def test_the_model_gets_its_first_values_once(index: int) -> None:
    """From trainer 0. Others wait for that, and so does trainer 0 when it comes again: then it takes what is there."""
    service, calls = Service(), []

    def original(runtime: object, scopes: object) -> None:
        calls.append((runtime, os.environ["TEST_MODE"]))

    def nobody_waits(seconds: float) -> None:
        raise AssertionError("trainer 0 waits for nobody")

    ModelInitializer(service, TWO, Slot("trainer", 0, 1), pause=nobody_waits).init_worker(original, "first")  # type: ignore[arg-type]  # quacks
    ModelInitializer(service, TWO, Slot("trainer", index, 2), pause=nobody_waits).init_worker(original, "again")  # type: ignore[arg-type]  # quacks
    assert calls == [("first", "0"), ("again", "1")]
    assert model_servers(service) == TWO  # type: ignore[arg-type]  # quacks
    assert "TEST_MODE" not in os.environ


def test_other_trainers_wait_for_trainer_0() -> None:
    service, order = Service(), []

    def trainer_0_comes(seconds: float) -> None:
        ModelInitializer(service, TWO, Slot("trainer", 0, 1)).init_worker(lambda *_: order.append(0), None)  # type: ignore[arg-type]  # quacks

    late = ModelInitializer(service, TWO, Slot("trainer", 1, 1), pause=trainer_0_comes)  # type: ignore[arg-type]  # quacks
    late.init_worker(lambda *_: order.append(1), None)
    assert order == [0, 1]


class Dataset:
    def __init__(self, files: list[str]) -> None:
        self.filelist = files

    def set_filelist(self, files: list[str]) -> None:
        self.filelist = files


class FakeTrainer:
    """Gives tasks (pass, chunk), and notes how it was left."""

    def __init__(self, given: list[tuple[int, int]]) -> None:
        self.given, self.left, self.chunks = given, [], 0  # type: list[tuple[int, int]], list[Any], int

    def __call__(self, on_done: Any) -> "FakeTrainer":
        return self

    def __enter__(self) -> "FakeTrainer":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.left.append(kind)

    def tasks(self, chunks: int) -> Iterator[Task]:
        self.chunks = chunks
        for number, chunk in self.given:
            yield Task(number, chunk, chunks, 9, 0, 1)


def test_a_call_trains_what_the_queue_gives_of_one_pass() -> None:
    trainer = FakeTrainer([(3, 1), (3, 2), (4, 0), (5, 0)])
    queue = FileQueue((), trainer)  # type: ignore[arg-type]  # quacks
    dataset, trained = Dataset(["a", "b", "c"]), list[str]()

    def original(executor: object, program: object, dataset: Dataset, **more: object) -> str:
        trained.append(*dataset.filelist)
        return "done"

    per_call = []
    with queue:
        for _ in range(4):
            queue.train(original, "executor", dataset=dataset, fetch_list=[])
            per_call.append("".join(trained))
            trained.clear()
    assert per_call == ["bc", "a", "a", ""], "and when all passes are over, nothing"
    assert (dataset.filelist, trainer.chunks, trainer.left) == (["a", "b", "c"], 3, [None])


def test_a_file_does_not_count_when_a_server_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = Server(0, 1, f"127.0.0.1:{listener.getsockname()[1]}")
    trainer = FakeTrainer([(0, 0), (0, 1)])
    with pytest.raises(LostServerError), FileQueue((gone,), trainer) as queue:  # type: ignore[arg-type]  # quacks
        queue.train(lambda *_: None, None, None, Dataset(["a", "b"]))
    assert trainer.left == [LostServerError]


def test_a_dataset_that_is_in_memory_is_refused() -> None:
    dataset = Dataset([])
    dataset.load_into_memory = lambda: None  # type: ignore[attr-defined]  # as Paddle's other one has
    with pytest.raises(TypeError, match="QueueDataset"):
        FileQueue(()).train(lambda *_: None, None, None, dataset)


def test_outside_of_a_pod_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train.py"]) == 2
    assert "EDL_JOB_NAMESPACE is not set" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["fit_a_line.yaml", "ctr.yaml"])
def test_the_examples_can_be_submitted(name: str) -> None:
    manifest = yaml.safe_load((Path(__file__).parents[3] / "examples" / "paddle" / name).read_text())
    checked = check(manifest)
    wrong = [problem for problem in checked.problems if problem.severity != "warning"]
    assert (isinstance(checked.object, TrainingJob), wrong) == (True, [])
