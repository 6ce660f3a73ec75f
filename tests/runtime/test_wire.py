"""Frames and calls over real sockets: who is let in, what is refused, what a broken connection does."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from edl.runtime import wire
from edl.runtime.rpc import Client, Nothing, RefusalError, Reply, Server, listen


class Echo(msgspec.Struct, tag="echo"):
    words: str = ""


class Break(msgspec.Struct, tag="break"):
    how: str


class Echoed(msgspec.Struct):
    words: str
    size: int


class Echoes:
    messages = Echo | Break

    def __init__(self) -> None:
        self.gone = threading.Semaphore(0)

    def connected(self) -> "Echoes":
        return self

    def handle(self, message: Any, payload: memoryview) -> Reply:
        if isinstance(message, Break):
            raise RefusalError("told-to", "as you wish") if message.how == "refuse" else ZeroDivisionError(message.how)
        return Reply(Echoed(message.words, len(payload)), [bytes(payload)])

    def closed(self) -> None:
        self.gone.release()


@pytest.fixture
def served() -> Iterator[tuple[Echoes, str]]:
    echoes, listener = Echoes(), listen("127.0.0.1", 0)
    server = Server(echoes, "secret", listener)
    server.start()
    yield echoes, f"127.0.0.1:{listener.getsockname()[1]}"
    server.close()


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 9_000_001])
def test_a_payload_arrives_as_it_was_sent(served: tuple[Echoes, str], size: int) -> None:
    client = Client(served[1], "secret")
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    client.send(Echo("hi"), [data[: size // 3].data, data[size // 3 :].data])
    reply, received = client.receive(Echoed)
    assert (reply.words, reply.size, received) == ("hi", size, size)
    assert bytes(client.take(received)) == data.tobytes()
    client.close()
    assert served[0].gone.acquire(timeout=10), "the server noticed"


def test_answers_come_in_the_order_of_the_calls(served: tuple[Echoes, str]) -> None:
    client = Client(served[1], "secret")
    for words in "abc":
        client.send(Echo(words))
    assert [client.receive(Echoed)[0].words for _ in "abc"] == ["a", "b", "c"]
    client.close()


def test_a_refusal_and_a_bad_message_leave_the_connection_usable(served: tuple[Echoes, str]) -> None:
    client = Client(served[1], "secret")
    with pytest.raises(RefusalError, match="as you wish") as refusal:
        client.call(Break("refuse"), Nothing)
    assert refusal.value.code == "told-to"
    with pytest.raises(RefusalError) as bad:
        client.call({"type": "nobody-knows-me"}, Nothing, [b"payload"])
    assert bad.value.code == "bad-message"
    assert client.call(Echo("still here"), Echoed).words == "still here"
    client.close()


def test_a_bug_in_a_handler_ends_the_connection_and_nothing_else(served: tuple[Echoes, str]) -> None:
    client = Client(served[1], "secret")
    with pytest.raises(ConnectionError):
        client.call(Break("bug"), Nothing)
    client.close()
    other = Client(served[1], "secret")
    assert other.call(Echo("x"), Echoed).words == "x"
    other.close()


def test_without_the_token_nobody_gets_in(served: tuple[Echoes, str]) -> None:
    with pytest.raises(ConnectionError):
        Client(served[1], "guess")


@pytest.mark.parametrize(
    ("impostor", "words"),
    [
        (lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "not a server of ours"),
        (lambda sock: (sock.sendall(b"EDL1" + b"n" * 16), sock.recv(48), sock.sendall(b"m" * 32)), "token"),
        (lambda sock: None, "closed"),
    ],
)
def test_a_client_trusts_no_impostor(impostor: Callable[[socket.socket], Any], words: str) -> None:
    listener = listen("127.0.0.1", 0)

    def answer() -> None:
        sock, _ = listener.accept()
        with sock:
            impostor(sock)

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(ConnectionError, match=words):
        Client(f"127.0.0.1:{listener.getsockname()[1]}", "secret")
    thread.join()
    listener.close()


def test_a_frame_beyond_the_limit_is_refused() -> None:
    here, there = socket.socketpair()
    here.sendall(wire._FRAME.pack(0, wire.MAX_HEADER + 1, 0))
    with pytest.raises(wire.WireError, match="too large"):
        wire.Channel(there).receive()
    here.close()
    there.close()


def test_a_taken_port_is_not_fatal() -> None:
    first = listen("127.0.0.1", 0)
    second = listen("127.0.0.1", first.getsockname()[1])
    assert second.getsockname()[1] != first.getsockname()[1]
    first.close()
    second.close()


@pytest.mark.parametrize("address", ["", "host", "host:", ":1x", "host:port"])
def test_addresses_are_checked(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        wire.split_address(address)
    assert wire.split_address("[::1]:80") == ("::1", 80)
