"""Lines that wait to be sent are whole, have a time, and are never more than what was agreed."""

from edl.runtime.logs.backlog import LONGEST, Backlog

EPOCH = b"1970-01-01T00:00:00.000000Z "


def backlog(most: int = 10_000) -> Backlog:
    return Backlog(most, clock=lambda: 0.0)


def test_lines_are_whole_however_they_come_in_pieces() -> None:
    lines = backlog()
    for stream, block in [(1, b"one\ntw"), (2, b"err"), (1, b"o\n"), (2, b"or\n")]:
        lines.add(stream, block)
    assert lines.take(1000) == EPOCH + b"one\n" + EPOCH + b"two\n" + EPOCH + b"error\n"
    assert not lines
    assert lines.take(1000) == b""


def test_the_end_of_a_stream_is_the_end_of_its_line() -> None:
    lines = backlog()
    lines.add(1, b"the last words")
    lines.add(1, b"")
    lines.add(2, b"")
    assert lines.take(1000) == EPOCH + b"the last words\n"


def test_what_is_too_much_is_given_up_from_the_front_and_told() -> None:
    lines = backlog(1000)
    lines.add(1, b"".join(b"%04d\n" % number for number in range(500)))
    taken = lines.take(10_000)
    first, *rest = taken.splitlines()
    assert len(b"".join(rest)) <= 1000
    assert rest[-1] == EPOCH + b"0499"
    assert first == EPOCH + b"edl: %d lines before this one were not kept" % (500 - len(rest))


def test_a_line_without_end_becomes_several() -> None:
    lines = backlog(1 << 20)
    lines.add(1, b"x" * (LONGEST * 3))
    assert [len(line) for line in lines.take(1 << 20).splitlines()] == [LONGEST + len(EPOCH)] * 2
    assert lines.take(1) == b"", "the rest has no end yet, and may go on"


def test_it_is_taken_in_chunks() -> None:
    lines = backlog()
    lines.add(1, b"a\nb\nc\n")
    assert [lines.take(2 * len(EPOCH + b"a\n")).count(b"\n") for _ in range(3)] == [2, 1, 0]
