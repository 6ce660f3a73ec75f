"""Cache for functions of short strings. Longer ones are computed anew: a client may send megabytes as a label."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

_LONGEST = 256
T = TypeVar("T")


def memoized(function: Callable[[str], T]) -> Callable[[str], T]:
    cached = lru_cache(maxsize=8192)(function)

    @wraps(function)
    def lookup(text: str) -> T:
        return cached(text) if len(text) <= _LONGEST else function(text)

    return lookup
