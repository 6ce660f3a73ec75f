"""An agent and its workers: who lives on is handed the next round, and nothing is restarted for it."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edl.protocol.rendezvous import Change, Formed, Hello, Refused, Stale, Training, Wait, Waiting
from edl.protocol.rounds import Member, Round
from edl.runtime.torch.agent_state import AgentState
from edl.runtime.torch.connection import Address, ConnectionThread
from edl.runtime.torch.in_place import InPlace
from edl.runtime.torch.lines import Lines, connect
from edl.runtime.torch.worker_hub import WorkerHub


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + 30.0
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


class Agent:
    """Its connection leads nowhere; a test says what the service would."""

    def __init__(self, silence: float = 60.0) -> None:
        self.state = AgentState(Hello(agent="a/1", run="r", minimum=1, maximum=4))
        self.connection = ConnectionThread(Address("http://127.0.0.1:1/", "t"), self.state)
        self.hub = WorkerHub(changed=self.connection.wake)
        self.stores = 0
        self.workers: list[Worker] = []
        self.in_place = InPlace(self.connection, self.hub, announce=self._announce, silence=silence)
        self.state.wait("a:1")
        self.hear(Formed(Round("r", 1, (Member("a/1", "a:1"), Member("b/1", "b:1")))))
        self.in_place.begin()

    def _announce(self) -> str:
        self.stores += 1
        return f"a:{self.stores + 1}"

    def hear(self, message: Any) -> None:
        self.connection.act(lambda state: state.receive(message))

    def worker(self, local_rank: int = 0, token: str = "") -> "Worker":
        self.workers.append(Worker(self.hub.link, local_rank, token))
        return self.workers[-1]

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.in_place.close()
        self.connection.close()


class Worker:
    def __init__(self, link: str, local_rank: int, token: str) -> None:
        self.lines: Lines = connect(link)
        self._received = self.lines.received()
        self.lines.send(
            "hello", token=token or link.partition(":")[2], local_rank=local_rank, pid=os.getpid() + local_rank
        )

    def close(self) -> None:
        self.lines.close()
        list(self._received)  # ends, and closes its file

    def hears(self) -> dict[str, Any]:
        return next(message for message in self._received if message["type"] != "ping")


@contextlib.contextmanager
def agent(**settings: Any) -> Iterator[Agent]:
    made = Agent(**settings)
    try:
        yield made
    finally:
        made.close()


def test_a_script_that_knows_nothing_of_this_is_restarted_as_ever() -> None:
    with agent() as made:
        made.hear(Stale(1, "c joined"))
        assert not made.in_place.in_charge
        assert made.state.report == Training(1)


def test_a_worker_is_told_its_round_and_the_next_one_while_it_trains() -> None:
    with agent() as made:
        worker = made.worker()
        told = worker.hears()
        assert (told["type"], told["number"], told["rank"], told["size"], told["endpoint"]) == ("round", 1, 0, 2, "a:1")
        until(lambda: made.state.report == Training(1, in_place=True, ready=False))
        worker.lines.send("ready")
        worker.lines.send("switched", round=1, step=0, pause=0.0, bytes=0)
        until(lambda: made.state.report == Training(1, in_place=True, ready=True))
        made.hear(Stale(1, "c joined"))
        until(lambda: made.state.report == Waiting(1, "a:2", in_place=True))
        assert made.in_place.in_charge
        made.hear(Formed(Round("r", 2, (Member("b/1", "b:2"), Member("a/1", "a:2")), in_place=True)))
        told = worker.hears()
        assert (told["number"], told["rank"], told["members"], told["endpoint"]) == (2, 1, ["b/1", "a/1"], "b:2")


def test_a_worker_that_lost_a_peer_makes_the_agent_wait_for_the_next_round() -> None:
    with agent() as made:
        worker = made.worker()
        worker.lines.send("ready")
        worker.lines.send("switched", round=1, step=0, pause=0.0, bytes=0)
        worker.lines.send("idle")
        worker.lines.send("broken", round=1)
        until(lambda: made.state.report == Waiting(1, "a:2", in_place=True, broken=True))


def test_one_that_is_not_in_the_next_round_hears_it() -> None:
    with agent() as made:
        worker = made.worker()
        worker.lines.send("ready")
        assert worker.hears()["type"] == "round"
        made.hear(Stale(1, "a was asked to leave"))
        until(lambda: isinstance(made.state.report, Waiting))
        made.hear(Wait("the others went on", 2))
        assert worker.hears() == {"type": "out", "number": 2}


def test_all_workers_of_a_pod_count_or_none() -> None:
    with agent() as made:
        made.hub.expected = 2
        first = made.worker(0)
        first.lines.send("ready")
        until(lambda: made.hub.workers and made.hub.workers[0].ready)
        assert not made.hub.ready
        second = made.worker(1)
        second.lines.send("ready")
        until(lambda: made.hub.ready)
        assert (first.hears()["rank"], second.hears()["rank"]) == (0, 1)
        second.lines.close()
        until(lambda: not made.hub.complete)
        assert not made.in_place.in_charge


def test_a_worker_that_falls_silent_is_started_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    with agent(silence=0.5) as made:
        made.worker()
        until(lambda: killed)  # which is after it was said
        assert made.in_place.hung
        assert killed == [os.getpid()]
        assert not made.in_place.in_charge


def test_a_stranger_is_no_worker() -> None:
    with agent() as made:
        stranger = made.worker(token="wrong")
        assert list(stranger._received) == []
        assert made.hub.workers == []


def test_workers_that_leave_make_their_last_step_first() -> None:
    with agent() as made:
        worker = made.worker()
        worker.lines.send("ready")
        until(lambda: made.hub.ready)
        assert worker.hears()["type"] == "round"
        made.in_place.leave(0.0)  # in vain, but it was said
        assert worker.hears() == {"type": "leave"}
        worker.lines.send("left")
        until(lambda: made.hub.left)


def test_how_workers_came_into_a_round_is_reported() -> None:
    with agent() as made:
        worker = made.worker()
        worker.lines.send("ready")
        worker.lines.send("switched", round=1, step=0, pause=0.0, bytes=0, lost=0)
        until(lambda: made.state.report == Training(1, in_place=True))
        made.hear(Stale(1, "c joined"))
        until(lambda: isinstance(made.state.report, Waiting))
        made.hear(Formed(Round("r", 2, (Member("a/1", "a:2"), Member("c/1", "c:1")), in_place=True)))
        worker.lines.send("switched", round=2, step=7, pause=0.25, bytes=5, lost=0)
        until(lambda: made.state.report == Training(2, in_place=True, change=Change(2, True, 0.25, 0, 5)))


def test_peers_that_do_not_answer_are_named() -> None:
    with agent() as made:
        worker = made.worker()
        worker.lines.send("ready")
        worker.lines.send("switched", round=1, step=0, pause=0.0, bytes=0)
        worker.lines.send("broken", round=1, unreached=["b/1"])
        until(lambda: isinstance(made.state.report, Waiting))
        assert made.state.report == Waiting(1, "a:2", True, True, ("b/1",))


def test_who_may_not_train_on_gives_its_workers_to_torchrun() -> None:
    with agent() as made:
        worker = made.worker()
        worker.lines.send("ready")
        until(lambda: made.in_place.in_charge)
        made.hear(Refused("a/1 and b/1 do not reach each other"))
        until(lambda: "do not reach each other" in made.in_place.hung)
        assert not made.in_place.in_charge
