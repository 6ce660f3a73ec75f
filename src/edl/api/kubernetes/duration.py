"""Durations as Kubernetes writes them (Go's `time.ParseDuration`): `300ms`, `1m30s`, `1.5h`. Exact, in nanoseconds."""

import functools
import re

WANTED = "wants a duration such as 30s, 1m30s or 500ms"

SECOND = 10**9
MAX_NANOSECONDS = 2**63 - 1
MAX_LENGTH = 128

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART = re.compile(r"(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


@functools.lru_cache(maxsize=1 << 12)
def nanoseconds(text: str) -> int:
    """The duration in nanoseconds, a fraction of one dropped; ValueError says what is wrong with it."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0
    total = _sum_of_parts(text, unsigned)
    return -total if text[0] == "-" else total


def _sum_of_parts(text: str, unsigned: str) -> int:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a duration of {len(text)} characters; {WANTED}")
    position = total = 0
    while match := _PART.match(unsigned, position):
        digits, fraction, bare_fraction, unit = match.groups()
        fraction = fraction or bare_fraction or ""
        total += int((digits or "") + fraction) * _UNITS[unit] // 10 ** len(fraction)
        position = match.end()
    if not unsigned or position != len(unsigned):
        missing_unit = unsigned.replace(".", "", 1).isdecimal()
        raise ValueError(f"{text!r} has no unit; {WANTED}" if missing_unit else f"{text!r}: {WANTED}")
    if total > MAX_NANOSECONDS:
        raise ValueError(f"{text!r} is more than 292 years")
    return total


def seconds(text: str) -> float:
    """The duration in seconds."""
    return nanoseconds(text) / SECOND


def problem(text: object) -> str | None:
    """What is wrong with it as a length of time (which is never negative), or nothing."""
    if not isinstance(text, str):
        return f"found {text!r}, {WANTED}"
    try:
        value = nanoseconds(text)
    except ValueError as error:
        return str(error)
    return f"{text} is negative; a duration is 0 or more" if value < 0 else None
