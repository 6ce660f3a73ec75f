"""Kubernetes quantities, exact: integers of 10^-9 (`nano`), because 0.1 CPU ten times must be 1 CPU.

The grammar, the rounding (away from zero, below 10^-9 and wherever an integer is asked for) and the ceiling of 2^63 - 1
units are those of apimachinery's `resource.Quantity`. Parsing is cached: a cluster knows few distinct quantities.
"""

import functools
import re

WANTED = "wants a quantity such as 500m, 2 or 1Gi"

Quantity = str | int | float

NANO = 10**9
MAX_UNITS = 2**63 - 1
MAX_LENGTH = 100

_GRAMMAR = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([eE][+-]?[0-9]+)|([a-zA-Z]*))", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = "e"
_FAR = 400  # no exponent beyond this changes the answer: it is the ceiling, or one nano


@functools.lru_cache(maxsize=1 << 16, typed=True)
def nano(quantity: Quantity) -> int:
    """The quantity in 10^-9 units, rounded away from zero; ValueError says what is wrong with it."""
    return _parse(quantity)[0]


@functools.lru_cache(maxsize=1 << 12, typed=True)
def canonical(quantity: Quantity) -> str:
    """The spelling under which Kubernetes stores it: no fraction, the largest suffix of its own family that keeps it
    exact. A binary quantity below 1Ki is written as a decimal one.
    """
    value, suffix = _parse(quantity)
    return _exponential(value) if suffix == _EXPONENT else _spelt(value, suffix)


def like(example: Quantity, value: int) -> str:
    """A computed `value` in the family of suffixes of an example: what was binary stays binary."""
    return _spelt(value, _parse(example)[1])


def _spelt(value: int, suffix: str) -> str:
    return text(value, binary=suffix in _BINARY and abs(value) >= 1024 * NANO)


def _parse(quantity: Quantity) -> tuple[int, str]:
    """The nanos, and the suffix (`e` for any exponent)."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise ValueError(f"{quantity!r}: {WANTED}")
    text = repr(quantity) if isinstance(quantity, float) else str(quantity)
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a quantity of {len(text)} characters; {WANTED}")
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}: {WANTED}")
    sign, digits, exponent, suffix = match.groups()
    whole, _, fraction = digits.partition(".")
    mantissa = int(whole + fraction or "0")
    power = int(exponent[1:]) if exponent else _decimal_power(text, suffix)
    if suffix in _BINARY:
        mantissa <<= _BINARY[suffix]
    value = min(_scaled(mantissa, power - len(fraction) + 9), MAX_UNITS * NANO)
    return (-value if sign == "-" else value), (_EXPONENT if exponent else suffix)


def _decimal_power(text: str, suffix: str) -> int:
    if suffix in _BINARY:
        return 0
    if suffix not in _DECIMAL:
        known = ", ".join((*filter(None, _DECIMAL), *_BINARY))
        raise ValueError(f"{text!r}: unknown suffix {suffix!r}, known are {known}")
    return _DECIMAL[suffix]


def _scaled(mantissa: int, power: int) -> int:
    power = max(-_FAR, min(_FAR, power))
    factor: int = 10 ** abs(power)
    return mantissa * factor if power >= 0 else -(-mantissa // factor)


@functools.lru_cache(maxsize=1 << 16, typed=True)
def milli(quantity: Quantity) -> int:
    """The quantity in thousandths (millicores), rounded away from zero."""
    return divide(nano(quantity), 10**6)


@functools.lru_cache(maxsize=1 << 16, typed=True)
def whole(quantity: Quantity) -> int:
    """The quantity in whole units (bytes, devices), rounded away from zero."""
    return divide(nano(quantity), NANO)


def divide(value: int, by: int) -> int:
    """`value / by` rounded away from zero; `by` is positive."""
    return -(-value // by) if value >= 0 else value // by


def text(value: int, *, binary: bool = False) -> str:
    """The shortest exact way to write `value` nanos: the largest suffix that leaves an integer."""
    if binary and value % NANO == 0:
        units = value // NANO
        for suffix, bits in reversed(_BINARY.items()):
            if units and units % (1 << bits) == 0:
                return f"{units >> bits}{suffix}"
        return str(units)
    for suffix, power in reversed(_DECIMAL.items()):
        if value and value % 10 ** (power + 9) == 0:
            return f"{value // 10 ** (power + 9)}{suffix}"
    return "0"


def _exponential(value: int) -> str:
    decimal = text(value)
    digits = decimal.rstrip("".join(_DECIMAL))
    power = _DECIMAL[decimal[len(digits) :]]
    return f"{digits}e{power}" if power else digits


def problem(quantity: object) -> str | None:
    """What is wrong with it as a quantity of a resource (which is never negative), or nothing."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        return f"found {type(quantity).__name__}, {WANTED}"
    try:
        value = nano(quantity)
    except ValueError as error:
        return str(error)
    return f"{quantity} is negative; a quantity of a resource is 0 or more" if value < 0 else None
