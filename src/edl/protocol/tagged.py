"""JSON of messages that are frozen dataclasses: `type` tells which, then the fields. The standard library alone.

PyTorch pods have these messages in images that hold torch and nothing of ours. Reading is strict about the types of
fields and lenient about names: what is unknown is skipped, what is left out has its default.
"""

import json
import math
import types
import typing
from collections.abc import Hashable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
LARGEST = 1 << 63
_UNTOLD = "untold"
UNTOLD = {_UNTOLD: True}
"""Metadata of a field that is left out where it has its default."""


class UnreadableError(ValueError):
    """Not a message of the kind that was expected; says which part is wrong."""


def encode(message: Any) -> bytes:
    """One object without line breaks; `type` first, where the message's class has a `TYPE`."""
    tag = getattr(message, "TYPE", "")
    return json.dumps({**({"type": tag} if tag else {}), **_plain(message)}, separators=(",", ":")).encode()


def decode(data: bytes | str, kinds: Mapping[str, type[T]]) -> T:
    """The message whose class its `type` names."""
    found = _object(data)
    tag = found.get("type")
    kind = kinds.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise UnreadableError(f"type is {tag!r}, known are {', '.join(kinds)}")
    return _made(kind, found, kind.__name__)


def decode_as(data: bytes | str, kind: type[T]) -> T:
    """A message that needs no tag."""
    return _made(kind, _object(data), kind.__name__)


def _object(data: bytes | str) -> dict[str, Any]:
    try:
        found = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:  # bytes that are no text, text that is no JSON, or nested without end
        raise UnreadableError(str(error)) from error
    if not isinstance(found, dict):
        raise UnreadableError("a message is a JSON object")
    return found


def _refuse(constant: str) -> None:
    raise UnreadableError(f"{constant} is no number in JSON")


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        told = (
            one for one in fields(value) if not (_UNTOLD in one.metadata and getattr(value, one.name) == one.default)
        )
        return {field.name: _plain(getattr(value, field.name)) for field in told}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _told(field: Field[Any], value: Any) -> bool:
    return _UNTOLD not in field.metadata or getattr(value, field.name) != field.default


@cache
def _types(kind: Hashable) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass


def _made(kind: type[T], found: dict[str, Any], where: str) -> T:
    wanted = _types(kind)  # type: ignore[arg-type]  # a class is hashable
    given = {name: _converted(found[name], wanted[name], f"{where}.{name}") for name in wanted if name in found}
    for field in fields(kind):  # type: ignore[arg-type]  # only dataclasses come here
        if field.name not in given and field.default is MISSING:
            raise UnreadableError(f"{where}.{field.name} is missing")
    return kind(**given)


def _converted(value: Any, wanted: Any, where: str) -> Any:
    if is_dataclass(wanted) and isinstance(value, dict):
        return _made(wanted, value, where)  # type: ignore[arg-type]  # a class, as annotations are
    if isinstance(wanted, types.GenericAlias) and isinstance(value, list):  # tuple[X, ...]
        item = typing.get_args(wanted)[0]
        return tuple(_converted(one, item, f"{where}[{at}]") for at, one in enumerate(value))
    if wanted is float and type(value) is int:
        value = float(value) if abs(value) < LARGEST else math.inf
    if type(value) is not wanted:
        raise UnreadableError(f"{where} is {type(value).__name__}, it must be {getattr(wanted, '__name__', wanted)}")
    if wanted in (int, float) and not abs(value) < LARGEST:
        raise UnreadableError(f"{where} is too large")
    return value
