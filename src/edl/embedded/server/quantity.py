"""Kubernetes quantities ("500m", "1Gi"): their exact value and their canonical spelling."""

from __future__ import annotations

import re
from fractions import Fraction

from edl.embedded.server.remembering import remembered

_PATTERN = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?\d+)\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_LONGEST = 100
_NANO = Fraction(1, 10**9)

RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class QuantityError(ValueError):
    def __init__(self) -> None:
        super().__init__(RULE)


@remembered
def _split(text: str) -> tuple[Fraction, str]:
    match = _PATTERN.match(text) if len(text) <= _LONGEST else None
    if match is None:
        raise QuantityError
    sign, digits, suffix = match.groups()
    value = Fraction(digits) if digits[-1] != "." else Fraction(digits[:-1])
    if suffix in _BINARY:
        value *= 1 << _BINARY[suffix]
    elif suffix in _DECIMAL:
        value *= Fraction(10) ** _DECIMAL[suffix]
    else:
        value *= Fraction(10) ** max(min(int(suffix[1:]), 400), -400)
    return (-value if sign == "-" else value), suffix


def parse(text: str | int) -> Fraction:
    """The exact value. Raises QuantityError."""
    return _split(str(text))[0]


@remembered
def canonical(text: str) -> str:
    """The spelling under which Kubernetes stores it: no fraction, the largest suffix that keeps it exact."""
    value, suffix = _split(text)
    if value % _NANO:
        value = _NANO * (-(-value // _NANO) if value > 0 else value // _NANO)  # finer than nano rounds away from zero
    if suffix in _BINARY and abs(value) >= 1024 and value.denominator == 1:
        return _binary(int(value))
    return _decimal(value, exponential=suffix[:1] in ("e", "E") and suffix != "E")


def _binary(value: int) -> str:
    suffix = ""
    for candidate, bits in _BINARY.items():
        if value % (1 << bits):
            break
        suffix = candidate
    return f"{value >> _BINARY[suffix]}{suffix}" if suffix else str(value)


def _decimal(value: Fraction, *, exponential: bool) -> str:
    if value == 0:
        return "0"
    exponent = -9
    while exponent < 18 and (value / Fraction(10) ** (exponent + 3)).denominator == 1:
        exponent += 3
    mantissa = value / Fraction(10) ** exponent
    if exponential:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_SUFFIX[exponent]}"


def equal(one: str, other: str) -> bool:
    return one == other or parse(one) == parse(other)


def like(example: str, value: Fraction) -> str:
    """A computed value in the spelling of an example: binary suffixes stay binary."""
    if _split(example)[1] in _BINARY and abs(value) >= 1024 and value.denominator == 1:
        return _binary(int(value))
    return _decimal(value, exponential=False)


def render(value: Fraction) -> str:
    """A computed value in canonical spelling, decimal."""
    return _decimal(value, exponential=False)
