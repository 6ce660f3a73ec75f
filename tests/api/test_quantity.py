"""Quantities: the grammar and rounding of Kubernetes, exactly."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.api.kubernetes import quantity

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


@pytest.mark.parametrize(
    ("given_", "canonical"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("100000", "100k"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000Ki", "1000Ki"),
        ("12e4", "120e3"),
        ("1e3", "1e3"),
        (".5", "500m"),
        ("5.", "5"),
        ("0", "0"),
        ("0Mi", "0"),
        ("-1", "-1"),
        ("+1", "1"),
        ("1E", "1E"),
        ("0.0000000001", "1n"),
        ("0.9765625Ki", "1k"),
        ("1e-3", "1e-3"),
        ("10E", "9223372036854775807"),
    ],
)
def test_canonical_quantities(given_: str, canonical: str) -> None:
    assert quantity.canonical(given_) == canonical
    assert quantity.canonical(canonical) == canonical


@given(st.integers(-(10**18), 10**18), st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "e3"]))
def test_canonical_spelling_keeps_the_value(number: int, suffix: str) -> None:
    assert quantity.nano(quantity.canonical(f"{number}{suffix}")) == quantity.nano(f"{number}{suffix}")


@pytest.mark.parametrize(
    ("example", "value", "spelling"),
    [
        ("1Mi", "2048", "2Ki"),
        ("1Mi", "1000", "1k"),
        ("1Mi", "1.5", "1500m"),
        ("1M", "2048", "2048"),
        ("1e3", "2000", "2k"),
    ],
)
def test_sums_keep_their_family_of_suffixes(example: str, value: str, spelling: str) -> None:
    assert quantity.like(example, quantity.nano(value)) == spelling


@pytest.mark.case("attack-low-quantities")
@pytest.mark.parametrize("text", ["1" * 101, "0." + "0" * 98 + "1", "1" + "0" * 5000, 10**101])
def test_a_quantity_of_more_than_100_characters_is_refused(text: str | int) -> None:
    with pytest.raises(ValueError, match="characters"):
        quantity.nano(text)
    assert quantity.problem(text)


@pytest.mark.case("attack-low-quantities")
def test_a_quantity_of_100_characters_is_read() -> None:
    assert quantity.problem("0" * 99 + "1") is None
