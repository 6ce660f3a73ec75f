"""Normalizes a decoded object by its type, as a Go server does by decoding into a struct.

Unknown fields and nulls are dropped, values of a wrong type are refused, empty values that Go would omit are omitted
and those it would write are added, quantities and times take their canonical spelling. The object is changed in place.
The walk is on the path of every write, so it carries no field paths; a second, slower walk locates problems
(`field_problems.py`).
"""

from collections.abc import Callable
from typing import Any

from edl.embedded.server.types.model import Anything, Field, ListOf, MapOf, Scalar, SchemaOr, Struct, Type
from edl.embedded.server.types.scalars import SCALARS, Findings, MismatchError, Normalize, boolean, string

__all__ = ["Findings", "MismatchError", "Normalizer", "normalizer"]

_NOTHING = Findings()


class Normalizer:
    """The walk of a struct, prepared once: per field a function and whether an empty value is dropped; and the fields
    that are always written.
    """

    __slots__ = ("_always", "_fields", "_name", "_open")

    def __init__(self, struct: Struct) -> None:
        self._name = struct.short_name
        self._open = struct.open
        self._fields: dict[str, tuple[Normalize, bool]] = {}
        self._always: list[tuple[str, Callable[[], Any]]] = []
        struct.prepared["normalize"] = self  # before the fields: a struct may contain itself
        for entry in struct.fields.values():
            self._fields[entry.name] = (_function(entry.type), _drops(entry))
            zero = _zero(entry)
            if zero is not None:
                self._always.append((entry.name, zero))

    def __call__(self, value: Any, findings: Findings, known: Any = None) -> Any:
        """`known` is a normalized object of this type: what `value` shares with it is not walked again."""
        if type(value) is not dict:
            raise MismatchError(value, f"v1.{self._name}")
        for name in self._visit(value, findings, known if type(known) is dict else _NONE):
            del value[name]
        for name, zero in self._always:
            if name not in value:
                value[name] = zero()
        return value

    def _visit(self, value: dict[str, Any], findings: Findings, known: dict[str, Any]) -> list[str]:
        """Normalizes each field; returns the names of those to drop."""
        gone: list[str] = []
        fields = self._fields
        name = ""
        try:
            for name, item in value.items():
                field = fields.get(name)
                if field is None:
                    if self._open:
                        continue
                    findings.unknown = True
                elif item is not None:
                    normalize, drops = field
                    before = known.get(name) if known else None
                    if before is item:
                        continue
                    if type(normalize) is Normalizer:
                        normalize(item, findings, before)
                        continue
                    new = normalize(item, findings)
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


def normalizer(struct: Struct) -> Normalizer:
    found: Normalizer | None = struct.prepared.get("normalize")
    return found if found is not None else Normalizer(struct)


def _drops(entry: Field) -> bool:
    """Whether Go's `omitempty` leaves an empty value out."""
    if entry.pointer or entry.keep or isinstance(entry.type, (Struct, Anything, SchemaOr)):
        return False
    return not (isinstance(entry.type, Scalar) and entry.type.name in ("time", "microtime", "quantity", "intorstring"))


def _zero(entry: Field) -> Callable[[], Any] | None:
    """The value written for an absent field, if any."""
    if entry.pointer or entry.omit_zero:
        return None
    kind = entry.type
    if isinstance(kind, Struct):
        inner = normalizer(kind)
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


def _function(kind: Type) -> Normalize:
    if isinstance(kind, Struct):
        return normalizer(kind)
    if isinstance(kind, ListOf):
        return _list(_function(kind.item), _go_name(kind), _nothing_of(kind.item))
    if isinstance(kind, MapOf):
        return _map(_function(kind.value), _go_name(kind), _nothing_of(kind.value))
    if isinstance(kind, Scalar):
        return SCALARS.get(kind.name) or string(_go_name(kind))
    if isinstance(kind, SchemaOr):
        return _schema_or(kind)
    return lambda value, findings: value


def _nothing_of(kind: Type) -> Callable[[], Any]:
    """The value that Go decodes a null element of a list to: the type's zero value."""
    if isinstance(kind, (Struct, MapOf)):
        return dict
    if isinstance(kind, ListOf):
        return list
    name = kind.name if isinstance(kind, Scalar) else ""
    empty = {"bool": False, "int32": 0, "int64": 0, "float64": 0, "intorstring": 0, "quantity": "0"}.get(name, "")
    return lambda: empty


def _list(item: Normalize, name: str, nothing: Callable[[], Any]) -> Normalize:
    def normalize(value: Any, findings: Findings) -> Any:
        if type(value) is not list:
            raise MismatchError(value, name)
        for index, element in enumerate(value):
            new = item(element if element is not None else nothing(), findings)
            if new is not element:
                value[index] = new
        return value

    return normalize


def _map(inner: Normalize, name: str, nothing: Callable[[], Any]) -> Normalize:
    def normalize(value: Any, findings: Findings) -> Any:
        if type(value) is not dict:
            raise MismatchError(value, name)
        for key, element in value.items():
            new = inner(element if element is not None else nothing(), findings)
            if new is not element:
                value[key] = new
        return value

    return normalize


def _schema_or(kind: SchemaOr) -> Normalize:
    def normalize(value: Any, findings: Findings) -> Any:
        if type(value) is dict:
            return normalizer(kind.schema)(value, findings)
        if kind.name.endswith("OrBool"):
            return boolean(value, findings)
        if type(value) is not list:
            raise MismatchError(value, f"v1.{kind.name}")
        inner = SCALARS["string"] if kind.name.endswith("OrStringArray") else normalizer(kind.schema)
        return [inner(item, findings) for item in value]

    return normalize


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
