"""What a pod writes reaches a Brain over real sockets, for its own job alone; a Brain that is away costs nothing."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edl.brain.log_store import LogBounds
from edl.protocol.plans import BrainAccess
from edl.runtime.environment import Environment
from edl.runtime.logs.feed import LogFeed
from edl.runtime.torch.stream_tail import STDOUT, StreamTail
from tests.runtime.logs.served_brain import ServedBrain, access
from tests.runtime.torch.service_thread import ServiceThread


def feed_of(service: ServiceThread, pod: str = "p", *, leads: bool = False) -> LogFeed:
    feed = LogFeed.start(Environment.read(service.env(pod)), lambda: leads, every=0.05)
    assert feed is not None
    return feed


def test_what_a_process_writes_is_at_the_brain_when_it_is_gone(service: ServiceThread, brain: ServedBrain) -> None:
    service.tell_of_brain(access(brain.url))
    feed = feed_of(service, leads=True)
    output = StreamTail(STDOUT, feed.add)
    with output.inherited():
        process = subprocess.Popen([sys.executable, "-c", "print('step 1'); print('step 2'); print('the end', end='')"])
    assert process.wait(60) == 0
    output.drain(60)
    feed.close(60)
    assert brain.lines() == ["step 1", "step 2", "the end"]
    assert brain.leads() == [("p", True)]


def test_lines_arrive_while_it_still_writes(service: ServiceThread, brain: ServedBrain) -> None:
    service.tell_of_brain(access(brain.url))
    feed = feed_of(service)
    feed.add(1, b"first\n")
    assert service.until(lambda: brain.lines() == ["first"])
    feed.add(1, b"second\n")
    assert service.until(lambda: brain.lines() == ["first", "second"])
    feed.close(60)
    assert brain.leads() == [("p", False)]


@pytest.mark.parametrize("given", [None, access("http://127.0.0.1:1", logs=False)], ids=["no Brain", "wants none"])
def test_where_nobody_wants_logs_nothing_is_gathered(service: ServiceThread, given: BrainAccess | None) -> None:
    service.tell_of_brain(given)
    feed = feed_of(service)
    assert service.until(lambda: not feed.wanted)
    feed.close(60)


def test_a_brain_that_keeps_none_is_not_asked_again(service: ServiceThread, tmp_path: Path) -> None:
    brain = ServedBrain(service, tmp_path, LogBounds(mebibytes=0))
    service.tell_of_brain(access(brain.url))
    feed = feed_of(service)
    feed.add(1, b"a line\n")
    assert service.until(lambda: not feed.wanted)
    feed.close(60)
    brain.close()


def test_the_token_of_another_job_opens_nothing(service: ServiceThread, brain: ServedBrain) -> None:
    service.tell_of_brain(access(brain.url, "ns/j/another-uid"))
    feed = feed_of(service)
    feed.add(1, b"a line\n")
    assert service.until(lambda: not feed.wanted)
    feed.close(60)
    assert brain.lines() == []


def test_a_brain_that_never_answers_keeps_nobody(service: ServiceThread) -> None:
    """It accepts and says nothing. Lines are taken as fast as ever, and the newest wait for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        service.tell_of_brain(access(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        feed = feed_of(service)
        output = StreamTail(STDOUT, feed.add)
        script = "import sys\nfor _ in range(40000): sys.stdout.write('x' * 99 + '\\n')"
        with output.inherited():
            process = subprocess.Popen([sys.executable, "-c", script])
        assert process.wait(60) == 0, "it wrote all of its 4 MB"
        output.drain(60)
        feed.close(0.0)


def test_it_finds_a_brain_that_comes_back(service: ServiceThread, brain: ServedBrain) -> None:
    with socket.create_server(("127.0.0.1", 0)) as rude:
        rude.settimeout(60)
        service.tell_of_brain(access(f"http://127.0.0.1:{rude.getsockname()[1]}"))
        feed = feed_of(service)
        feed.add(1, b"said while it was away\n")
        rude.accept()[0].close()
    service.tell_of_brain(access(brain.url))
    assert service.until(lambda: brain.lines() == ["said while it was away"])
    feed.close(60)
