"""Durations as kubectl prints them: two units at most, finer while they are short."""

import time

from edl.api.kubernetes import timestamp

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human(seconds: float) -> str:
    total = int(seconds)
    if seconds < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    if total < 2 * _MINUTE:
        return f"{total}s"
    if total < 10 * _MINUTE:
        return _two(total, _MINUTE, "m", 1, "s")
    if total < 3 * _HOUR:
        return f"{total // _MINUTE}m"
    if total < 8 * _HOUR:
        return _two(total, _HOUR, "h", _MINUTE, "m")
    if total < 2 * _DAY:
        return f"{total // _HOUR}h"
    if total < 8 * _DAY:
        return _two(total, _DAY, "d", _HOUR, "h")
    if total < 2 * _YEAR:
        return f"{total // _DAY}d"
    return _two(total, _YEAR, "y", _DAY, "d") if total < 8 * _YEAR else f"{total // _YEAR}y"


def _two(total: int, large: int, large_name: str, small: int, small_name: str) -> str:
    whole, rest = divmod(total, large)
    return f"{whole}{large_name}{rest // small}{small_name}" if rest // small else f"{whole}{large_name}"


def since(moment: str | None) -> str:
    """The age of a timestamp, `<unknown>` when there is none."""
    if not moment:
        return "<unknown>"
    return human(time.time() - timestamp.seconds(moment))
