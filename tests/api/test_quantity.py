"""Quantities: the grammar and rounding of Kubernetes, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.api import quantity

KIB = 2**10


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1", 10**9),
        ("100m", 10**8),
        ("0.1", 10**8),
        (".5", 5 * 10**8),
        ("1.", 10**9),
        ("+2", 2 * 10**9),
        ("-1500m", -15 * 10**8),
        ("1k", 10**12),
        ("1e3", 10**12),
        ("1E3", 10**12),
        ("1E", 10**27),
        ("1e-3", 10**6),
        ("1Ki", KIB * 10**9),
        ("1.5Gi", 3 * 2**29 * 10**9),
        ("1n", 1),
        ("0.1n", 1),
        ("-0.1n", -1),
        ("1u", 1000),
        ("12Ei", quantity.MAX_UNITS * 10**9),
        ("1e999999999999", quantity.MAX_UNITS * 10**9),
        ("1e-999999999999", 1),
        ("0e999999999999", 0),
        (2, 2 * 10**9),
        (0.1, 10**8),
        (1e22, quantity.MAX_UNITS * 10**9),
    ],
)
def test_grammar(text: quantity.Quantity, nanos: int) -> None:
    assert quantity.nano(text) == nanos
    assert quantity.problem(text) is None or nanos < 0


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1 Gi", "1gi", "1K", "1KI", "e3", "1e", "1e3Ki", "1_000", "0x10", "--1", "1.2.3", ".", "m", "१",
     "1\n", "9" * 300, float("inf"), float("nan"), True],
)  # fmt: skip
def test_refused(text: quantity.Quantity) -> None:
    with pytest.raises(ValueError, match=r"quantity|suffix"):
        quantity.nano(text)
    assert quantity.problem(text)


def test_negative_is_a_problem_of_resources_alone() -> None:
    assert quantity.nano("-1") == -(10**9)
    assert quantity.problem("-1") == "-1 is negative; a quantity of a resource is 0 or more"
    assert quantity.problem(None) == "found NoneType, wants a quantity such as 500m, 2 or 1Gi"


def test_rounded_away_from_zero_where_an_integer_is_wanted() -> None:
    assert [quantity.milli(q) for q in ("1", "0.0001", "1500u", "-1500u")] == [1000, 1, 2, -2]
    assert [quantity.whole(q) for q in ("1", "1m", "1.5Ki", "-0.5")] == [1, 1, 1536, -1]


def test_ten_tenths_are_one() -> None:
    assert sum(quantity.nano(0.1) for _ in range(10)) == quantity.nano(1)


@pytest.mark.parametrize(
    ("nanos", "decimal", "binary"),
    [
        (0, "0", "0"),
        (10**8, "100m", "100m"),
        (2**30 * 10**9, "1073741824", "1Gi"),
        (10**12, "1k", "1000"),
        (-(10**9), "-1", "-1"),
    ],
)
def test_text(nanos: int, decimal: str, binary: str) -> None:
    assert (quantity.text(nanos), quantity.text(nanos, binary=True)) == (decimal, binary)


@given(st.integers(-(2**62), 2**62), st.booleans())
def test_text_reads_back(nanos: int, binary: bool) -> None:
    assert quantity.nano(quantity.text(nanos, binary=binary)) == nanos


@given(st.integers(0, 10**12), st.integers(0, 15), st.sampled_from(["", "m", "k", "Mi", "Gi"]))
def test_exact_against_fractions(digits: int, scale: int, suffix: str) -> None:
    unit = {"": Fraction(1), "m": Fraction(1, 1000), "k": Fraction(1000), "Mi": Fraction(2**20), "Gi": Fraction(2**30)}
    text = f"{digits // 10**scale}.{digits % 10**scale:0{scale}d}{suffix}" if scale else f"{digits}{suffix}"
    exact = Fraction(digits, 10**scale) * unit[suffix] * 10**9
    wanted = min(-(-exact.numerator // exact.denominator), quantity.MAX_UNITS * 10**9)
    assert quantity.nano(text) == wanted
