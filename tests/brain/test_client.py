"""A client against servers that are slow, cut off, or answer what no Brain would."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from edl.brain.client import BrainClient, BrainDownError, BrainRefusalError
from edl.protocol.brain import Beginning
from edl.protocol.job_facts import Features

Serve = Callable[[Callable[[socket.socket], None]], str]


def http(status: str, body: bytes) -> Callable[[socket.socket], None]:
    return lambda peer: peer.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)


def read_request(peer: socket.socket) -> None:
    """All of it: to hang up on bytes that were not read is a reset, which may overtake the answer."""
    with peer.makefile("rb") as request:
        length = 0
        for line in iter(request.readline, b"\r\n"):
            if not line:
                return
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        request.read(length)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that does one thing to whoever calls; its address."""
    over, listeners, threads = threading.Event(), list[socket.socket](), list[threading.Thread]()

    def start(act: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(0.1)
        listeners.append(listener)

        def run() -> None:
            while not over.is_set():
                try:
                    peer, _ = listener.accept()
                except TimeoutError:
                    continue
                with peer:
                    peer.settimeout(5)
                    read_request(peer)
                    act(peer)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    over.set()
    for thread in threads:
        thread.join(10)
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        pytest.param(lambda peer: peer.recv(1), "timed out|Timeout", id="slow"),
        pytest.param(lambda peer: None, "closed|Disconnected", id="hangs up"),
        pytest.param(lambda peer: peer.sendall(b"\x16\x03\x01nonsense\r\n\r\n"), "BadStatusLine", id="no HTTP"),
        pytest.param(http("200 OK", b"<html>welcome</html>"), "makes no sense", id="a web page"),
        pytest.param(http("200 OK", b'{"reason": 7}'), r"makes no sense.*\$.reason", id="other JSON"),
        pytest.param(
            http(
                "200 OK",
                b'{"reason": "r", "plan": {"rule": "r", "reason": "r", "roles": {"worker": {"replicas": -3}}}}',
            ),
            r"makes no sense.*replicas",
            id="negative",
        ),
        pytest.param(http("502 Bad Gateway", b"<html>"), "502", id="a proxy's error"),
        pytest.param(
            http("503 x", b'{"error": "the database does not answer", "code": "unavailable"}'), "503", id="503"
        ),
    ],
)
def test_anything_but_an_answer_is_absence(serve: Serve, act: Callable[[socket.socket], None], words: str) -> None:
    client = BrainClient(serve(act), "t", timeout=0.3)
    with pytest.raises(BrainDownError, match=words):
        client.begin("ns/j/u", Beginning(Features()))


def test_a_refusal_is_final(serve: Serve) -> None:
    client = BrainClient(serve(http("401 x", b'{"error": "the token has expired", "code": "unauthorized"}')), "t")
    with pytest.raises(BrainRefusalError, match="401 unauthorized: the token has expired"):
        client.jobs()


def test_a_connection_is_kept_and_a_stale_one_replaced(serve: Serve) -> None:
    """Two calls on one connection; then the server hangs up, and the third call comes by another."""
    calls: list[int] = []

    def act(peer: socket.socket) -> None:
        number = len(calls)
        calls.append(0)
        for _ in range(2):
            calls[number] += 1
            http("200 OK", b"[]")(peer)
            if calls[number] == 2 or not peer.recv(65536):
                return

    with contextlib.closing(BrainClient(serve(act), "t")) as client:
        assert [client.jobs() for _ in range(3)] == [[], [], []]
    assert calls == [2, 1]
