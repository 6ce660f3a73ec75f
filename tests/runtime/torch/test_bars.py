"""Bars that are redrawn in place become lines of the log, once a second; everything else passes as it is."""

import pytest

from edl.runtime.torch.bars import BarLines
from edl.runtime.torch.stream_tail import StreamTail
from tests.runtime.torch.test_stream_tail import run

BAR = "\r 40%|####      | 12/30 [00:03<00:05,  3.20it/s]  "


@pytest.mark.parametrize(
    ("block", "ending"),
    [
        (BAR, b"\n"),
        ("\r  0%|          | 0/30 [00:00<?, ?it/s]", b"\n"),
        (f"{BAR}\r{' ' * 50}\r", b""),  # wiped out, for another line
        (f"{BAR}\n", b""),  # full
        (f"{BAR}Traceback", b""),
        ("step 3/4 [x]", b""),
        ("\r50%", b""),
        ("", b""),
        ("\x00\xff" * 5000, b""),
    ],
)
def test_which_blocks_end_with_a_bar(block: str, ending: bytes) -> None:
    assert BarLines().ending(block.encode(), 0.0) == ending


def test_a_bar_that_moves_is_a_line_once_a_second() -> None:
    bars, bar = BarLines(every=1.0), BAR.encode()
    assert [bars.ending(bar, now) for now in (5.0, 5.5, 5.9, 6.0, 6.5)] == [b"\n", b"", b"", b"\n", b""]


def test_a_bar_passes_as_a_line_and_nothing_is_changed(capfd: pytest.CaptureFixture[str]) -> None:
    copied: list[bytes] = []
    tail = StreamTail(copy=lambda stream, block: copied.append(block))
    run(tail, f"import sys; sys.stderr.write({BAR!r}); sys.stderr.flush()")
    tail.drain(10.0)
    assert capfd.readouterr().err == BAR + "\n"
    assert b"".join(copied).decode() == BAR + "\n", "for the Brain too"
