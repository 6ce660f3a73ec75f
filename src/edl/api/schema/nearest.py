"""The nearest known name to one that is not known: `min_instance` for `min-instance`, `trainner` for `trainer`."""

import difflib
from collections.abc import Iterable

_TOO_LONG = 64  # nobody misspells a name into this, and matching is quadratic


def nearest(name: str, known: Iterable[str]) -> str | None:
    by_letters = {_letters(candidate): candidate for candidate in known}
    wanted = _letters(name[: _TOO_LONG + 1])
    if len(wanted) > _TOO_LONG:
        return None
    if wanted in by_letters:
        return by_letters[wanted]
    close = difflib.get_close_matches(wanted, by_letters, n=1, cutoff=0.7)
    return by_letters[close[0]] if close else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or the known names where they are few, or nothing."""
    names = list(known)
    if near := nearest(name, names):
        return f"; did you mean {near}?"
    return f"; known are {', '.join(names)}" if 0 < len(names) <= 12 else ""


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
