"""Durations, names and timestamps: one table each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.api.kubernetes import duration, names, timestamp


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("30s", 30 * 10**9),
        ("1m30s", 90 * 10**9),
        ("1.5h", 5400 * 10**9),
        (".5s", 5 * 10**8),
        ("1.s", 10**9),
        ("500ms", 5 * 10**8),
        ("2us3ns", 2003),
        ("2µs", 2000),
        ("-1s", -(10**9)),
        ("+1s", 10**9),
    ],
)
def test_duration(text: str, nanoseconds: int) -> None:
    assert duration.nanoseconds(text) == nanoseconds
    assert duration.seconds(text) == nanoseconds / 10**9
    assert (duration.problem(text) is None) == (nanoseconds >= 0)


@pytest.mark.parametrize(
    "text", ["", "s", "1", "1.5", "1 s", "1d", "s1", "-", "1s2", "1e3s", "9" * 200 + "s", "300000000h"]
)
def test_duration_refused(text: str) -> None:
    with pytest.raises(ValueError):
        duration.nanoseconds(text)
    assert duration.problem(text)


def test_a_duration_without_a_unit_says_so() -> None:
    assert duration.problem("30") == "'30' has no unit; wants a duration such as 30s, 1m30s or 500ms"
    assert duration.problem(30) == "found 30, wants a duration such as 30s, 1m30s or 500ms"


@given(st.text(alphabet="0123456789.hmsnuµ+-", max_size=12))
def test_duration_never_raises_anything_but_valueerror(text: str) -> None:
    assert duration.problem(text) is None or isinstance(duration.problem(text), str)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.dns_label_problem, ["a", "a-1", "1a", "a" * 63], ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64, "ä"]),
        (names.dns_subdomain_problem, ["a", "a.b-c.1", "a" * 253], ["", ".a", "a..b", "A.b", "a" * 254]),
        (names.job_name_problem, ["job", "a" * 47], ["", "1job", "a" * 48, "a.b", "Job"]),
        (names.label_value_problem, ["", "a", "A_b.c-9", "a" * 63], ["-a", "a-", "a/b", "a" * 64, "a b", "a\n"]),
        (names.label_key_problem, ["a", "edl.dev/pin", "a.b/C_d"], ["", "/a", "a/", "A.b/c", "a/b/c", "a b", "a" * 64]),
    ],
)
def test_names(check: object, good: list[str], bad: list[str]) -> None:
    assert callable(check)
    assert [check(text) for text in good] == [None] * len(good)
    assert all(check(text) for text in bad)


def test_a_long_name_is_not_repeated_in_full() -> None:
    assert len(names.dns_label_problem("x" * 100_000) or "") < 200


def test_timestamps() -> None:
    assert timestamp.seconds("1970-01-01T00:01:00Z") == 60
    assert timestamp.seconds("1970-01-01T01:00:00.5+01:00") == 0.5
    assert timestamp.text(60.9) == "1970-01-01T00:01:00Z"
    assert timestamp.micro_text(0.25) == "1970-01-01T00:00:00.250000Z"
    assert timestamp.problem("2026-01-31T12:00:00Z") is None
    assert timestamp.problem("yesterday") == "'yesterday' is not a timestamp such as 2026-01-31T12:00:00Z"
    assert timestamp.problem(7)
