"""Between the round and its workers: agents that wait for each other's word in the store, and one that never comes."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed import PrefixStore, TCPStore

from edl.protocol.rendezvous import Hello
from edl.runtime.torch.agent import EdlAgent, RoundOverError
from edl.runtime.torch.agent_state import AgentState
from edl.runtime.torch.handler import ANSWER, EdlHandler
from edl.runtime.torch.plugin import Settings

pytestmark = pytest.mark.frameworks
SPEC = SimpleNamespace(role="worker", local_world_size=1)


class RendezvousConnection:
    """The agent's connection, as far as its round is concerned."""

    def __init__(self) -> None:
        self.state = AgentState(Hello(agent="a/1", run="r", minimum=1, maximum=2))
        self._changed = threading.Condition()

    def until(self, holds: Any, timeout: float) -> bool:
        with self._changed:
            return bool(self._changed.wait_for(lambda: holds(self.state), timeout))

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def end(self) -> None:
        self.state.stale = "its peer is gone"
        self.wake()


handlers: list[EdlHandler] = []


@pytest.fixture(autouse=True)
def closed_handlers() -> Iterator[None]:
    """Their threads would look after nobody's workers until the tier ends."""
    yield
    while handlers:
        handler = handlers.pop()
        handler.in_place.close()
        handler.memory.close()


def agent(connection: RendezvousConnection) -> EdlAgent:
    handler = EdlHandler(connection, Settings(), run="r", address="127.0.0.1")  # type: ignore[arg-type]  # as much of it as is used
    handlers.append(handler)
    made = EdlAgent.__new__(EdlAgent)
    made._worker_group = SimpleNamespace(spec=SimpleNamespace(rdzv_handler=handler))
    return made


@pytest.fixture
def store() -> TCPStore:
    made = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    made.set_timeout(ANSWER)
    return made


def ranks(connection: RendezvousConnection, store: Any, rank: int) -> list[int]:
    workers = agent(connection)._assign_worker_ranks(PrefixStore("round/1", store), rank, 2, SPEC)
    return [worker.global_rank for worker in workers]


def test_a_peer_that_takes_its_time_is_waited_for(store: TCPStore) -> None:
    found: list[int] = []
    late = threading.Timer(2 * ANSWER.total_seconds(), lambda: found.extend(ranks(RendezvousConnection(), store, 1)))
    late.start()
    assert ranks(RendezvousConnection(), store, 0) == [0]
    late.join()
    assert found == [1]


@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_never_comes_is_not(store: TCPStore, rank: int) -> None:
    connection = RendezvousConnection()
    threading.Timer(2 * ANSWER.total_seconds(), connection.end).start()
    with pytest.raises(RoundOverError):
        ranks(connection, store, rank)


def test_the_next_round_is_asked_for_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([RoundOverError("its peer is gone"), None])

    def rendezvous(self: Any, group: Any) -> None:
        if over := next(rounds):
            raise over

    monkeypatch.setattr(EdlAgent.__mro__[1], "_rendezvous", rendezvous)
    agent(RendezvousConnection())._rendezvous(SimpleNamespace())
    assert list(rounds) == []
