"""Give a decoded object the form its type says: what a Go server does by decoding into a struct.

Unknown fields and nulls go, values of a wrong type are refused, empty values that Go would omit are omitted and those
it would write are added, quantities and times take their canonical spelling. The object is changed in place. The walk
is on the path of every write, so it carries no field paths; problems are located by a second, slower walk
(`fields.py`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from edl.embedded.server import quantity
from edl.embedded.server.remembering import remembered
from edl.embedded.server.types import Anything, Field, ListOf, MapOf, Scalar, SchemaOr, Struct, Type

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


_NOTHING = Outcome()
Settle = Callable[[Any, Outcome], Any]


class Settler:
    """A struct's walk, prepared once: per field a function, whether an empty value goes, and what must be there."""

    __slots__ = ("_always", "_fields", "_name", "_open")

    def __init__(self, struct: Struct) -> None:
        self._name = struct.short_name
        self._open = struct.open
        self._fields: dict[str, tuple[Settle, bool]] = {}
        self._always: list[tuple[str, Callable[[], Any]]] = []
        struct.prepared["settle"] = self  # before the fields: a struct may contain itself
        for entry in struct.fields.values():
            self._fields[entry.name] = (_function(entry.type), _drops(entry))
            zero = _zero(entry)
            if zero is not None:
                self._always.append((entry.name, zero))

    def __call__(self, value: Any, outcome: Outcome, known: Any = None) -> Any:
        """`known` is an object of this type that is settled already: what `value` shares with it is not walked
        again."""
        if type(value) is not dict:
            raise MismatchError(value, f"v1.{self._name}")
        for name in self._visit(value, outcome, known if type(known) is dict else _NONE):
            del value[name]
        for name, zero in self._always:
            if name not in value:
                value[name] = zero()
        return value

    def _visit(self, value: dict[str, Any], outcome: Outcome, known: dict[str, Any]) -> list[str]:
        """Settle each field; the result names those that must go."""
        gone: list[str] = []
        fields = self._fields
        name = ""
        try:
            for name, item in value.items():
                field = fields.get(name)
                if field is None:
                    if self._open:
                        continue
                    outcome.unknown = True
                elif item is not None:
                    settle, drops = field
                    before = known.get(name) if known else None
                    if before is item:
                        continue
                    if type(settle) is Settler:
                        settle(item, outcome, before)
                        continue
                    new = settle(item, outcome)
                    if new is not item:
                        value[name] = new
                    if new or not drops:
                        continue
                gone.append(name)
        except MismatchError as mismatch:
            mismatch.struct = mismatch.struct or self._name
            mismatch.path.append(name)
            raise
        return gone


_NONE: dict[str, Any] = {}


def settler(struct: Struct) -> Settler:
    found: Settler | None = struct.prepared.get("settle")
    return found if found is not None else Settler(struct)


def _drops(entry: Field) -> bool:
    """Whether Go's `omitempty` leaves an empty value out."""
    if entry.pointer or entry.keep or isinstance(entry.type, (Struct, Anything, SchemaOr)):
        return False
    return not (isinstance(entry.type, Scalar) and entry.type.name in ("time", "microtime", "quantity", "intorstring"))


def _zero(entry: Field) -> Callable[[], Any] | None:
    """What is written for a field that was not given, if anything is."""
    if entry.pointer or entry.omit_zero:
        return None
    kind = entry.type
    if isinstance(kind, Struct):
        inner = settler(kind)
        return lambda: inner({}, _NOTHING)
    if isinstance(kind, Scalar):
        if kind.name in ("time", "microtime"):
            return lambda: None
        if kind.name == "quantity":
            return lambda: "0"
        if entry.keep or kind.name == "intorstring":
            empty = {"bool": False, "int32": 0, "int64": 0, "float64": 0, "intorstring": 0, "bytes": None}.get(
                kind.name, ""
            )
            return lambda: empty
    if entry.keep and isinstance(kind, (ListOf, MapOf)):
        return lambda: None
    return None


def _function(kind: Type) -> Settle:
    if isinstance(kind, Struct):
        return settler(kind)
    if isinstance(kind, ListOf):
        return _list(_function(kind.item), _go_name(kind), _nothing_of(kind.item))
    if isinstance(kind, MapOf):
        return _map(_function(kind.value), _go_name(kind), _nothing_of(kind.value))
    if isinstance(kind, Scalar):
        return _SCALARS.get(kind.name) or _string(_go_name(kind))
    if isinstance(kind, SchemaOr):
        return _schema_or(kind)
    return lambda value, outcome: value


def _nothing_of(kind: Type) -> Callable[[], Any]:
    """What Go makes of a null among a list's elements: the element in which nothing is set."""
    if isinstance(kind, (Struct, MapOf)):
        return dict
    if isinstance(kind, ListOf):
        return list
    name = kind.name if isinstance(kind, Scalar) else ""
    empty = {"bool": False, "int32": 0, "int64": 0, "float64": 0, "intorstring": 0, "quantity": "0"}.get(name, "")
    return lambda: empty


def _list(item: Settle, name: str, nothing: Callable[[], Any]) -> Settle:
    def settle(value: Any, outcome: Outcome) -> Any:
        if type(value) is not list:
            raise MismatchError(value, name)
        for index, element in enumerate(value):
            new = item(element if element is not None else nothing(), outcome)
            if new is not element:
                value[index] = new
        return value

    return settle


def _map(inner: Settle, name: str, nothing: Callable[[], Any]) -> Settle:
    def settle(value: Any, outcome: Outcome) -> Any:
        if type(value) is not dict:
            raise MismatchError(value, name)
        for key, element in value.items():
            new = inner(element if element is not None else nothing(), outcome)
            if new is not element:
                value[key] = new
        return value

    return settle


def _schema_or(kind: SchemaOr) -> Settle:
    def settle(value: Any, outcome: Outcome) -> Any:
        if type(value) is dict:
            return settler(kind.schema)(value, outcome)
        if kind.name.endswith("OrBool"):
            return _bool(value, outcome)
        if type(value) is not list:
            raise MismatchError(value, f"v1.{kind.name}")
        inner = _SCALARS["string"] if kind.name.endswith("OrStringArray") else settler(kind.schema)
        return [inner(item, outcome) for item in value]

    return settle


def _string(name: str) -> Settle:
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


def _bool(value: Any, outcome: Outcome) -> Any:
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


_SCALARS: dict[str, Settle] = {
    "string": _string("string"),
    "int32": _integer(32),
    "int64": _integer(64),
    "bool": _bool,
    "float64": _float,
    "quantity": _quantity,
    "intorstring": _int_or_string,
    "bytes": _bytes,
    "time": _time,
    "microtime": _microtime,
}


def _go_name(kind: Type) -> str:
    """The type as Go's decoder names it in errors."""
    if isinstance(kind, ListOf):
        return f"[]{_go_name(kind.item)}"
    if isinstance(kind, MapOf):
        return f"map[string]{_go_name(kind.value)}"
    if isinstance(kind, Struct):
        return f"v1.{kind.short_name}"
    if isinstance(kind, Scalar):
        return f"v1.{kind.name.rpartition('.')[2]}" if "." in kind.name else kind.name
    return "interface {}"
