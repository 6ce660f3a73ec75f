"""JSONPath, as far as CustomResourceDefinitions use it: `.spec.replicas`,
`.status.conditions[?(@.type=="Ready")].status`.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""\.(?P<name>[A-Za-z_][-\w\0]*)|\[(?P<index>-?\d+)\]|\[['"](?P<quoted>[^'"]+)['"]\]|(?P<all>\[\*\]|\.\*)"""
    r"""|\[\?\(\s*@\.(?P<field>[\w.]+)\s*(?P<op>==|!=)\s*['"]?(?P<value>[^'")]*)['"]?\s*\)\]"""
)
Step = Callable[[list[Any]], list[Any]]


class JsonPathError(ValueError):
    """The expression is not one that this server understands."""


@lru_cache(maxsize=512)
def compile_path(text: str) -> tuple[Step, ...]:
    expression = text.strip().removeprefix("{").removesuffix("}").removeprefix("$").replace(r"\.", "\0")
    expression = expression if expression.startswith((".", "[")) else f".{expression}"
    steps: list[Step] = []
    position = 0
    while position < len(expression):
        match = _STEP.match(expression, position)
        if match is None:
            raise JsonPathError(f"cannot parse JSONPath {text!r} at {expression[position:]!r}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def find(value: Any, text: str) -> list[Any]:
    """Every value the path leads to, in order."""
    found = [value]
    for step in compile_path(text):
        found = step(found)
    return found


def _step(match: re.Match[str]) -> Step:
    name = match["name"] or match["quoted"]
    if name:
        key = name.replace("\0", ".")
        return lambda values: [v[key] for v in values if isinstance(v, dict) and key in v]
    if match["index"]:
        index = int(match["index"])
        return lambda values: [v[index] for v in values if isinstance(v, list) and -len(v) <= index < len(v)]
    if match["all"]:
        return lambda values: [item for v in values for item in _items(v)]
    field, wanted, equal = match["field"], match["value"], match["op"] == "=="
    return lambda values: [
        item for v in values for item in _items(v) if (_text(find(item, f".{field}")) == wanted) is equal
    ]


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _text(found: list[Any]) -> str:
    value = found[0] if found else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
