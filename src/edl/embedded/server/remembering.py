"""A cache for functions of short strings. Clients may send megabytes as a label: those are judged, not remembered."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

_LONGEST = 256
T = TypeVar("T")


def remembered(function: Callable[[str], T]) -> Callable[[str], T]:
    cached = lru_cache(maxsize=8192)(function)

    @wraps(function)
    def judge(text: str) -> T:
        return cached(text) if len(text) <= _LONGEST else function(text)

    return judge
