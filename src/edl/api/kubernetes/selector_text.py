"""Reads label selectors in their text form (`a=b,c in (d,e),!f`), with the messages of apimachinery's parser.

The grammar of keys and values is an argument, so that each caller reports a wrong one in its own words.
"""

import re
from collections.abc import Callable

from edl.api.kubernetes import names
from edl.api.kubernetes.meta import LabelRequirement
from edl.api.kubernetes.selectors import is_integer

Check = Callable[[str], str | None]

_TOKEN = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_SPECIAL = frozenset("=!<>(),") | {"==", "!="}
_COMPARISONS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_START = "expected: !, identifier, or 'end of string'"


class SelectorError(ValueError):
    """The text is not a label selector; the message says where and why."""


def parse(
    text: str, *, key_problem: Check = names.label_key_problem, value_problem: Check = names.label_value_problem
) -> tuple[LabelRequirement, ...]:
    """The requirements that the text asks for, in its order. Raises SelectorError."""
    return _Parser(text, key_problem, value_problem).selector()


class _Parser:
    """Recursive descent over the tokens; the end of the text is an empty token."""

    def __init__(self, text: str, key_problem: Check, value_problem: Check) -> None:
        self._tokens = [match.group(1) for match in _TOKEN.finditer(text)]
        self._at = 0
        self._key_problem = key_problem
        self._value_problem = value_problem

    @property
    def _token(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._token
        self._at += 1
        return token

    def selector(self) -> tuple[LabelRequirement, ...]:
        found: list[LabelRequirement] = []
        while self._token:
            if self._token != "!" and self._token in _SPECIAL:
                raise SelectorError(f"found '{self._token}', {_START}")
            found.append(self._requirement())
            if self._token:
                self._comma()
        return tuple(found)

    def _comma(self) -> None:
        if (token := self._take()) != ",":
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        if not self._token or (self._token != "!" and self._token in _SPECIAL):
            raise SelectorError(f"found '{self._token}', expected: identifier after ','")

    def _requirement(self) -> LabelRequirement:
        if self._token == "!":
            self._take()
            return LabelRequirement(self._key(), "DoesNotExist")
        key = self._key()
        if self._token in ("", ","):
            return LabelRequirement(key, "Exists")
        operator = self._take()
        if operator in ("in", "notin"):
            return LabelRequirement(key, "In" if operator == "in" else "NotIn", self._set())
        if operator not in _COMPARISONS:
            raise _unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        value = self._value(key)
        if operator in ("<", ">") and not is_integer(value):
            rule = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _unparsable(f'values[0]: Invalid value: "{value}": {rule}')
        return LabelRequirement(key, _COMPARISONS[operator], (value,))

    def _key(self) -> str:
        key = self._take()
        if not key:
            raise _unparsable("found '', expected: identifier")
        if key in _SPECIAL:
            raise _unparsable(f"found '{key}', {_START}")
        if problem := self._key_problem(key):
            raise _unparsable(f'<nil>: Invalid value: "{key}": {problem}')
        return key

    def _value(self, key: str) -> str:
        if self._token in ("", ","):
            return ""
        value = self._take()
        if value in _SPECIAL:
            raise _unparsable(f"found '{value}', expected: identifier")
        if problem := self._value_problem(value):
            raise _unparsable(f'values[0][{key}]: Invalid value: "{value}": {problem}')
        return value

    def _set(self) -> tuple[str, ...]:
        if (token := self._take()) != "(":
            raise _unparsable(f"found '{token}' expected: '('")
        values = [""] if self._token in (",", ")") else []
        while self._token not in ("", ")"):
            token = self._take()
            values += [token] if token != "," else []
        if self._take() != ")":
            raise _unparsable("found '', expected: ',' or ')'")
        return tuple(values)


def _unparsable(why: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: {why}")
