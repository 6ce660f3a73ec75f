"""Values without parts, as Go decodes them: their type is checked, their spelling made canonical."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from edl.embedded.server import quantity
from edl.embedded.server.remembering import remembered

_WORDS = {str: "string", bool: "bool", dict: "object", list: "array", int: "number", float: "number"}
_SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
_MICROSECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z")


class MismatchError(Exception):
    """A value does not have its field's type. `path` is filled from the inside out as the walk unwinds."""

    def __init__(self, value: object, type_name: str, message: str = "") -> None:
        word = _WORDS.get(type(value), "null")
        self.got = f"number {value}" if isinstance(value, float) else word
        self.type_name = type_name
        self.message = message
        self.struct = ""
        self.path: list[str] = []

    def __str__(self) -> str:
        if self.message:
            return self.message
        path = ".".join(reversed(self.path))
        return f"json: cannot unmarshal {self.got} into Go struct field {self.struct}.{path} of type {self.type_name}"


class Outcome:
    """What a walk came upon besides errors."""

    __slots__ = ("unknown",)

    def __init__(self) -> None:
        self.unknown = False


Settle = Callable[[Any, Outcome], Any]


def string(name: str) -> Settle:
    def settle(value: Any, outcome: Outcome) -> Any:
        if type(value) is not str:
            raise MismatchError(value, name)
        return value

    return settle


def _integer(bits: int) -> Settle:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def settle(value: Any, outcome: Outcome) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        mismatch = MismatchError(value, f"int{bits}")
        if type(value) is int:
            mismatch.got = f"number {value}"
        raise mismatch

    return settle


def boolean(value: Any, outcome: Outcome) -> Any:
    if type(value) is not bool:
        raise MismatchError(value, "bool")
    return value


def _float(value: Any, outcome: Outcome) -> Any:
    if type(value) not in (int, float):
        raise MismatchError(value, "float64")
    return value


def _quantity(value: Any, outcome: Outcome) -> Any:
    if type(value) is str:
        text = value
    elif type(value) in (int, float):
        text = str(value)
    else:
        raise MismatchError(value, "", quantity.RULE)
    try:
        return quantity.canonical(text)
    except quantity.QuantityError:
        raise MismatchError(value, "", quantity.RULE) from None


def _int_or_string(value: Any, outcome: Outcome) -> Any:
    if type(value) not in (int, str):
        raise MismatchError(value, "intstr.IntOrString")
    return value


def _bytes(value: Any, outcome: Outcome) -> Any:
    if type(value) is not str:
        raise MismatchError(value, "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except ValueError:  # binascii.Error, or characters that are not ASCII
        bad = re.search(r"[^A-Za-z0-9+/=]", value)
        raise MismatchError(
            value, "", f"illegal base64 data at input byte {bad.start() if bad else len(value) // 4 * 4}"
        ) from None
    return value


def _time(value: Any, outcome: Outcome) -> Any:
    if type(value) is str and _SECOND.match(value):
        return value
    return _moment(value, "%Y-%m-%dT%H:%M:%SZ")


def _microtime(value: Any, outcome: Outcome) -> Any:
    if type(value) is str and _MICROSECOND.match(value):
        return value
    return _moment(value, "%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(value: Any, layout: str) -> str:
    if type(value) is not str:
        raise MismatchError(value, "string")
    parsed = _parse_time(value)
    if parsed is None:
        problem = f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
        raise MismatchError(value, "", problem)
    return parsed.strftime(layout)


@remembered
def _parse_time(text: str) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed.tzinfo is not None and "T" in text else None


SCALARS: dict[str, Settle] = {
    "string": string("string"),
    "int32": _integer(32),
    "int64": _integer(64),
    "bool": boolean,
    "float64": _float,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "bytes": _bytes,
    "time": _time,
    "microtime": _microtime,
}
