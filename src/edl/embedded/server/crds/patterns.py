"""Patterns of CRD schemas, matched in time linear in the value: `re` would need minutes for `^(a|a)*$` and 40 letters,
and the event loop would stand still for everybody.

The engine is that of `jsonschema-rs` (Rust's `regex`), whose syntax is nearly Go's. A pattern that only Go knows
refuses nothing here.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import jsonschema_rs

_SMALL = 64 << 10
_LARGE = 1 << 20
_LONGEST_FOR_LARGE = 16 << 10
"""Time also grows with the compiled pattern: values longer than this do not match one larger than `_SMALL`."""
_POSIX = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\t\n\v\f\r ",
    "[:word:]": "0-9A-Za-z_",
    "[:xdigit:]": "0-9A-Fa-f",
}
_POSIX_CLASS = re.compile(r"\[:[a-z]+:\]")


def matches(pattern: str, value: str) -> bool:
    """Whether the pattern is found anywhere in the value."""
    return _compiled(pattern)(value)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Callable[[str], bool]:
    translated = _POSIX_CLASS.sub(lambda found: _POSIX.get(found[0], found[0]), pattern)
    found = _compile(translated, _SMALL)
    if found is not None:
        return found
    large = _compile(translated, _LARGE)
    if large is None:
        return lambda _value: True
    return lambda value: len(value) <= _LONGEST_FOR_LARGE and large(value)


def _compile(pattern: str, size: int) -> Callable[[str], bool] | None:
    options = jsonschema_rs.RegexOptions(size_limit=size, dfa_size_limit=size)
    try:
        compiled: Callable[[str], bool] = jsonschema_rs.validator_for(
            {"pattern": pattern}, pattern_options=options
        ).is_valid
    except (ValueError, jsonschema_rs.ValidationError):
        return None
    return compiled
