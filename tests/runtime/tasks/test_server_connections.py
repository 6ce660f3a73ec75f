"""Connections to parameter servers under several threads, and closed under a call."""

import threading
from collections.abc import Iterator

import msgspec
import pytest

from edl.runtime.parameters.messages import Release, ServerState, Status
from edl.runtime.rpc import Nothing, Reply, Server, listen
from edl.runtime.tasks.server_connections import ServerConnections
from edl.runtime.tasks.shared_state import ServerSlot

CALLS = 300


class Answers:
    """One parameter server that answers at once, or never while `silent`."""

    messages = Status | Release

    def __init__(self) -> None:
        self.asked, self.silent = threading.Event(), threading.Event()
        self.silent.set()

    def connected(self) -> "Answers":
        return self

    def handle(self, message: msgspec.Struct, payload: memoryview) -> Reply:
        self.asked.set()
        self.silent.wait(30)
        return Reply(ServerState(0, 0, 0, False, False, False) if isinstance(message, Status) else Nothing())

    def closed(self) -> None: ...


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def member(answers: Answers) -> Iterator[ServerSlot]:
    listener = listen("127.0.0.1", 0)
    server = Server(answers, "token", listener)
    server.start()
    yield ServerSlot(0, 1, f"127.0.0.1:{listener.getsockname()[1]}")
    server.close()


@pytest.mark.case("acceptance-14")
def test_two_threads_never_read_each_others_answers(member: ServerSlot) -> None:
    """A trainer that ended released its servers while its keeper asked them, and read half a frame of the other."""
    connections = ServerConnections("token", 1)
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(CALLS):
            state = connections.states([member])[member]
            if not isinstance(state, ServerState):
                wrong.append(state)

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(CALLS):
        connections.release([member])
    asking.join()
    connections.close()
    assert wrong == []


def test_closing_ends_a_call_that_waits(member: ServerSlot, answers: Answers) -> None:
    answers.silent.clear()
    connections = ServerConnections("token", 1)
    found: list[object] = []

    def ask() -> None:
        try:
            found.append(connections.states([member])[member])
        except ConnectionError as error:
            found.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert answers.asked.wait(10)
    connections.close()
    asking.join(10)
    answers.silent.set()
    assert not asking.is_alive()
    assert found[0] is None or isinstance(found[0], ConnectionError)
    with pytest.raises(ConnectionError):
        connections.states([member])
