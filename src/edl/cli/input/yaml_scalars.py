"""Resolves unquoted scalars of YAML on which all parsers agree, and refuses the others with the reason.

YAML 1.1 (PyYAML, and in part the parser inside kubectl) and YAML 1.2 read some words differently: `on`, `0o10`, `1e3`.
A manifest with such a word means one thing here and another there, so it is refused instead of obeyed.
"""

import re
from typing import Any

import msgspec

_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_NUMERIC = frozenset("0123456789+-.")
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII)
_FRACTION = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)", re.ASCII)
_DISPUTED = re.compile(
    r"[-+]?(0[0-9_]+|0[oO][0-7_]+|0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?|[0-9]+(:[0-5]?[0-9])+)"
    r"|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    re.ASCII,
)
_MAX_DIGITS = 400


class Disputed(msgspec.Struct, frozen=True):
    """A word that parsers do not agree on, and what to write instead."""

    message: str


def resolve(word: str) -> Any:
    """None, bool, int, float or str; or Disputed."""
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if word[0] in _NUMERIC:
        return _number(word)
    meaning = _WORDS.get(word.lower()) if len(word) <= 3 else None
    if meaning:
        return Disputed(f'{word} is {meaning} to some YAML parsers and text to others: write {meaning}, or "{word}"')
    return word


def _number(word: str) -> Any:
    if len(word) <= _MAX_DIGITS:
        if _INTEGER.fullmatch(word):
            return int(word)
        if _FRACTION.fullmatch(word):
            return float(word)
    elif _INTEGER.fullmatch(word) or _FRACTION.fullmatch(word):
        return Disputed(f"a number of {len(word)} digits is read exactly by no parser: quote it if it is text")
    if _DISPUTED.fullmatch(word):
        readings = "a number, another number, or text"
        return Disputed(f"{word[:40]} is not the same to all YAML parsers ({readings}): write {_plainly(word)}")
    return word


def _plainly(word: str) -> str:
    match = re.fullmatch(r"([1-9][0-9]?)[eE]\+?([0-9])", word, re.ASCII)
    plain = str(int(match[1]) * 10 ** int(match[2])) if match else "it in plain decimal digits"
    return f'{plain}, or "{word[:40]}" in quotes if it is text'
