"""Unquoted words: what all parsers agree on is obeyed, the rest is refused with what to write instead."""

from typing import Any

import pytest

from edl.cli.input.yaml_scalars import Disputed, resolve


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-5", -5),
        ("+5", 5),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("500m", "500m"),
        ("1.2.3", "1.2.3"),
        ("2026-01-31", "2026-01-31"),
        ("12:99", "12:99"),
        ("nothing", "nothing"),
        ("onward", "onward"),
        ("y", "y"),
        ("-", "-"),
        (".", "."),
        ("..", ".."),
        ("--lr=1e-3", "--lr=1e-3"),
        ("0.1.0rc1", "0.1.0rc1"),
    ],
)
def test_agreed(word: str, value: Any) -> None:
    found = resolve(word)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("on", 'write true, or "on"'),
        ("Yes", 'write true, or "Yes"'),
        ("OFF", 'write false, or "OFF"'),
        ("no", 'write false, or "no"'),
        ("1e3", 'write 1000, or "1e3" in quotes'),
        ("1.5e+3", "write it in plain decimal digits"),
        ("0o10", "write it in plain decimal digits"),
        ("010", "write it in plain decimal digits"),
        ("0x1F", "write it in plain decimal digits"),
        ("0b11", "write it in plain decimal digits"),
        ("1_000", "write it in plain decimal digits"),
        ("1:30", "write it in plain decimal digits"),
        (".inf", "write it in plain decimal digits"),
        ("-.INF", "write it in plain decimal digits"),
        (".NaN", "write it in plain decimal digits"),
        ("9" * 5000, "quote it if it is text"),
        ("0." + "9" * 5000, "quote it if it is text"),
    ],
)
def test_disputed(word: str, advice: str) -> None:
    found = resolve(word)
    assert isinstance(found, Disputed)
    assert advice in found.message
    assert len(found.message) < 250
