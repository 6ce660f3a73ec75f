"""RFC 3339 timestamps as Kubernetes writes them, to and from seconds since 1970. Pure: the present is an argument."""

import functools
from datetime import UTC, datetime

SECOND_LAYOUT = "%Y-%m-%dT%H:%M:%SZ"
MICROSECOND_LAYOUT = "%Y-%m-%dT%H:%M:%S.%fZ"


@functools.lru_cache(maxsize=1 << 16)
def seconds(text: str) -> float:
    """Seconds since 1970; ValueError if it is not a timestamp."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def text(seconds_since_1970: float) -> str:
    """As metav1.Time: whole seconds, UTC."""
    return datetime.fromtimestamp(seconds_since_1970, UTC).strftime(SECOND_LAYOUT)


def micro_text(seconds_since_1970: float) -> str:
    """As metav1.MicroTime, which leases and events use."""
    return datetime.fromtimestamp(seconds_since_1970, UTC).strftime(MICROSECOND_LAYOUT)


def problem(value: object) -> str | None:
    """What is wrong with it as a timestamp, or nothing."""
    if isinstance(value, str):
        try:
            seconds(value)
        except (ValueError, OverflowError):
            pass
        else:
            return None
    return f"{value!r} is not a timestamp such as 2026-01-31T12:00:00Z"
