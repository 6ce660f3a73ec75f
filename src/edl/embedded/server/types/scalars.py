"""Normalizes scalar values as Go decodes them: checks their type and makes their spelling canonical."""

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from edl.api.kubernetes import quantity
from edl.api.kubernetes.timestamp import MICROSECOND_LAYOUT, SECOND_LAYOUT
from edl.embedded.server.memoize import memoized

_WORDS = {str: "string", bool: "bool", dict: "object", list: "array", int: "number", float: "number"}
_SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
_MICROSECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z")

QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


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


class Findings:
    """Findings of a walk besides errors: whether it dropped unknown fields."""

    __slots__ = ("unknown",)

    def __init__(self) -> None:
        self.unknown = False


Normalize = Callable[[Any, Findings], Any]


def string(name: str) -> Normalize:
    def normalize(value: Any, findings: Findings) -> Any:
        if type(value) is not str:
            raise MismatchError(value, name)
        return value

    return normalize


def _integer(bits: int) -> Normalize:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def normalize(value: Any, findings: Findings) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        mismatch = MismatchError(value, f"int{bits}")
        if type(value) is int:
            mismatch.got = f"number {value}"
        raise mismatch

    return normalize


def boolean(value: Any, findings: Findings) -> Any:
    if type(value) is not bool:
        raise MismatchError(value, "bool")
    return value


def _float(value: Any, findings: Findings) -> Any:
    if type(value) not in (int, float):
        raise MismatchError(value, "float64")
    return value


def _quantity(value: Any, findings: Findings) -> Any:
    if type(value) not in (str, int, float):
        raise MismatchError(value, "", QUANTITY_RULE)
    try:
        return quantity.canonical(value)
    except ValueError:
        raise MismatchError(value, "", QUANTITY_RULE) from None


def _int_or_string(value: Any, findings: Findings) -> Any:
    if type(value) not in (int, str):
        raise MismatchError(value, "intstr.IntOrString")
    return value


def _bytes(value: Any, findings: Findings) -> Any:
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


def _time(value: Any, findings: Findings) -> Any:
    if type(value) is str and _SECOND.match(value):
        return value
    return _moment(value, SECOND_LAYOUT)


def _microtime(value: Any, findings: Findings) -> Any:
    if type(value) is str and _MICROSECOND.match(value):
        return value
    return _moment(value, MICROSECOND_LAYOUT)


def _moment(value: Any, layout: str) -> str:
    if type(value) is not str:
        raise MismatchError(value, "string")
    parsed = _parse_time(value)
    if parsed is None:
        problem = f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
        raise MismatchError(value, "", problem)
    return parsed.strftime(layout)


@memoized
def _parse_time(text: str) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed.tzinfo is not None and "T" in text else None


SCALARS: dict[str, Normalize] = {
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
