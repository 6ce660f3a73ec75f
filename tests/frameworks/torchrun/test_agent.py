"""Between the round and its workers: agents that wait for each other's word in the store, and one that never comes."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from torch.distributed import PrefixStore, TCPStore

from edl.runtime.rendezvous.agent import EdlAgent, RoundOverError
from edl.runtime.rendezvous.handler import ANSWER, EdlHandler
from edl.runtime.rendezvous.messages import Hello
from edl.runtime.rendezvous.plugin import Settings
from edl.runtime.rendezvous.standing import Standing

pytestmark = pytest.mark.frameworks
SPEC = SimpleNamespace(role="worker", local_world_size=1)


class Link:
    """The agent's connection, as far as its round is concerned."""

    def __init__(self) -> None:
        self.standing = Standing(Hello(agent="a/1", run="r", minimum=1, maximum=2))
        self._stale = threading.Event()

    def until(self, holds: Any, timeout: float) -> bool:
        self._stale.wait(timeout)
        return bool(holds(self.standing))

    def end(self) -> None:
        self.standing.stale = "its peer is gone"
        self._stale.set()


def agent(link: Link) -> EdlAgent:
    handler = EdlHandler(link, Settings(), run="r", address="127.0.0.1")  # type: ignore[arg-type]  # as much of it as is used
    made = EdlAgent.__new__(EdlAgent)
    made._worker_group = SimpleNamespace(spec=SimpleNamespace(rdzv_handler=handler))
    return made


@pytest.fixture
def store() -> TCPStore:
    made = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    made.set_timeout(ANSWER)
    return made


def ranks(link: Link, store: Any, rank: int) -> list[int]:
    workers = agent(link)._assign_worker_ranks(PrefixStore("round/1", store), rank, 2, SPEC)
    return [worker.global_rank for worker in workers]


def test_a_peer_that_takes_its_time_is_waited_for(store: TCPStore) -> None:
    found: list[int] = []
    late = threading.Timer(2 * ANSWER.total_seconds(), lambda: found.extend(ranks(Link(), store, 1)))
    late.start()
    assert ranks(Link(), store, 0) == [0]
    late.join()
    assert found == [1]


@pytest.mark.parametrize("rank", [0, 1])
def test_one_that_never_comes_is_not(store: TCPStore, rank: int) -> None:
    link = Link()
    threading.Timer(2 * ANSWER.total_seconds(), link.end).start()
    with pytest.raises(RoundOverError):
        ranks(link, store, rank)


def test_the_next_round_is_asked_for_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([RoundOverError("its peer is gone"), None])

    def rendezvous(self: Any, group: Any) -> None:
        if over := next(rounds):
            raise over

    monkeypatch.setattr(EdlAgent.__mro__[1], "_rendezvous", rendezvous)
    agent(Link())._rendezvous(SimpleNamespace())
    assert list(rounds) == []
