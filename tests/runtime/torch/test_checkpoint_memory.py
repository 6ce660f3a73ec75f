"""Memory that an agent holds for its workers: it outlives them, holds what is whole, and knows when they have saved."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from edl.runtime.torch import packets
from edl.runtime.torch.checkpoint_memory import REGROUP, CheckpointMemory
from edl.runtime.torch.packets import Packets


@pytest.fixture
def memory() -> Iterator[CheckpointMemory]:
    made = CheckpointMemory()
    yield made
    made.close()


def worker(memory: CheckpointMemory, local_rank: int = 0, token: str = "") -> Packets:
    name, _, right = memory.link.partition(":")
    made = packets.connect(name)
    made.send("hello", token=token or right, local_rank=local_rank, pid=os.getpid())
    return made


def filled(content: bytes) -> int:
    file = os.memfd_create("test")
    os.write(file, content)
    return file


def ask(worker: Packets, kind: str, **fields: Any) -> tuple[dict[str, Any], bytes]:
    worker.send(kind, **fields)
    answer = worker.receive(10.0)
    assert answer is not None
    packet, file = answer
    if file is None:
        return packet, b""
    with os.fdopen(file, "rb") as opened:
        opened.seek(0)
        return packet, opened.read()


def put(worker: Packets, step: int, content: bytes, slot: str = "", branch: int = 1) -> None:
    file = filled(content)
    assert ask(worker, "put", name="/data", slot=slot, step=step, branch=branch, keep=2, file=file)[0] == {
        "type": "done"
    }
    os.close(file)


def get(worker: Packets, step: int, slot: str = "", branch: int = 1) -> bytes:
    return ask(worker, "get", name="/data", slot=slot, step=step, branch=branch)[1]


def steps(worker: Packets) -> list[int]:
    return [image["step"] for image in ask(worker, "list", name="/data")[0]["images"]]


def test_what_a_killed_worker_saved_is_its_successors(memory: CheckpointMemory) -> None:
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            put(worker(memory), 7, b"seven")
            os.write(tell, b"!")
            signal.pause()
        os._exit(1)
    assert os.read(ready, 1) == b"!"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(ready)
    os.close(tell)
    successor = worker(memory)
    assert get(successor, 7) == b"seven"
    successor.close()


def test_the_newest_of_each_slot_are_held(memory: CheckpointMemory) -> None:
    one = worker(memory)
    for step in (1, 2, 3):
        put(one, step, b"mine %d" % step)
    put(one, 1, b"a neighbour's", slot="1/2")
    assert steps(one) == [2, 3, 1]
    assert get(one, 1, slot="1/2") == b"a neighbour's"
    assert get(one, 1) == b""
    assert memory.size == len(b"mine 2mine 3a neighbour's")
    one.close()


def test_a_training_that_began_anew_replaces_the_steps_of_the_one_before(memory: CheckpointMemory) -> None:
    one = worker(memory)
    put(one, 8, b"old", branch=1)
    put(one, 9, b"old", branch=1)
    put(one, 5, b"new", branch=2)
    assert steps(one) == [9, 5]
    put(one, 6, b"new", branch=2)
    assert steps(one) == [5, 6]
    one.close()


def test_a_training_that_is_safe_has_those_before_it_forgotten(memory: CheckpointMemory) -> None:
    one = worker(memory)
    put(one, 8, b"old", slot="2/3", branch=1)
    put(one, 9, b"new", slot="0/2", branch=2)
    one.send("forget", name="/data", branch=2)
    assert steps(one) == [9]
    one.close()


def test_what_is_taken_back_is_nobodys(memory: CheckpointMemory) -> None:
    one = worker(memory)
    put(one, 3, b"three")
    assert ask(one, "withdraw", name="/data", slot="", step=3, branch=1)[0] == {"type": "done"}
    assert steps(one) == []
    one.close()


def test_who_does_not_know_the_token_gets_nothing(memory: CheckpointMemory) -> None:
    stranger = worker(memory, token="guess")
    assert stranger.receive(10.0) is None
    stranger.close()


class Stopping:
    """`stop` in a thread, as an agent calls it."""

    def __init__(self, memory: CheckpointMemory, expected: int, *, leaving: bool = False) -> None:
        self.result: bool | None = None
        self._thread = threading.Thread(target=self._run, args=(memory, expected, leaving))
        self._thread.start()

    def _run(self, memory: CheckpointMemory, expected: int, leaving: bool) -> None:
        self.result = memory.stop(expected, leaving=leaving)

    def end(self) -> bool | None:
        self._thread.join(30.0)
        return self.result


def saver(memory: CheckpointMemory, local_rank: int = 0, pace: float | None = 0.1) -> Packets:
    """Has called `save`, and the agent knows."""
    made = worker(memory, local_rank)
    made.send("pace", seconds=pace)
    steps(made)
    return made


@pytest.mark.parametrize(("leaving", "word"), [(False, "parked"), (True, "written")])
def test_workers_are_stopped_when_all_of_the_pod_have_saved(memory: CheckpointMemory, leaving: bool, word: str) -> None:
    both = [saver(memory, rank, pace=5.0) for rank in (0, 1)]
    stopping = Stopping(memory, 2, leaving=leaving)
    for one in both:
        assert one.receive(10.0) == ({"type": "stop", "leaving": leaving}, None)
        assert stopping.result is None
        one.send(word)
    assert stopping.end() is True
    for one in both:
        one.close()


def test_one_that_is_gone_is_not_waited_for(memory: CheckpointMemory) -> None:
    one = saver(memory, pace=5.0)
    stopping = Stopping(memory, 1)
    assert one.receive(10.0) is not None
    one.close()
    assert stopping.end() is False


@pytest.mark.parametrize(("expected", "pace"), [(2, 0.1), (1, REGROUP)])
def test_workers_of_which_one_never_saves_or_all_too_rarely_are_not_asked(
    memory: CheckpointMemory, expected: int, pace: float
) -> None:
    one = saver(memory, pace=pace)
    assert memory.stop(expected) is False
    with pytest.raises(TimeoutError):
        one.receive(0.0)
    one.close()


def test_scripts_that_save_in_another_way_are_stopped_at_once(memory: CheckpointMemory) -> None:
    assert memory.stop(1) is False
