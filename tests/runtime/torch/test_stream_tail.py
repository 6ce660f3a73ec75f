"""The last lines that a process writes to stderr are kept, and pass on to where they would have gone."""

import os
import subprocess
import sys

import pytest

from edl.runtime.torch.failure_message import MOST_REPORTED, reportable
from edl.runtime.torch.stream_tail import KEPT, StreamTail


def run(tail: StreamTail, script: str) -> None:
    with tail.inherited():
        process = subprocess.Popen([sys.executable, "-c", script])
    process.wait(30)


def test_last_words_are_kept_and_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    tail = StreamTail()
    run(tail, "import sys; sys.exit('no such flag')")
    assert tail.last(10.0) == "no such flag"
    assert capfd.readouterr().err == "no such flag\n"


def test_much_and_binary_output_is_kept_in_part() -> None:
    tail = StreamTail()
    run(tail, "import sys; sys.stderr.buffer.write(bytes(range(256)) * 4000 + b'the end')")
    assert tail.last(10.0).endswith("the end")
    assert len(tail.last()) <= KEPT


def test_our_own_stderr_is_as_before(capfd: pytest.CaptureFixture[str]) -> None:
    with StreamTail().inherited():
        pass
    os.write(2, b"ours\n")
    assert capfd.readouterr().err == "ours\n"


def test_nobody_who_wrote_has_last_words() -> None:
    assert StreamTail().last() == ""


@pytest.mark.parametrize("text", ["", "short", "a" * 50_000, "\U0001f600" * 50_000, '"\\' * 9000])
def test_a_message_fits_whatever_is_in_it(text: str) -> None:
    import json

    shown = reportable(text)
    assert text.endswith(shown)
    assert len(json.dumps(shown)) <= MOST_REPORTED
    assert shown or not text
