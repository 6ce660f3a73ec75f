"""Type model of objects, for built-in kinds and custom resources alike.

Decoding, pruning, strategic merge, server-side apply, OpenAPI and protobuf all walk these types. The built-in kinds
are read from `types.txt`, one struct per paragraph and one field per line:

    core.Container
      name string 1 keep
      ports [core.ContainerPort] 6 keys=containerPort,protocol patch=merge:containerPort

that is: JSON name, type (`[T]` list, `{T}` map of strings to T, `*T` may be absent, `...` fields of T inlined),
protobuf number, then marks: `keep` (written even when empty), `atomic`/`set`/`keys=` (how server-side apply divides
it), `patch=` (how a strategic merge patch treats it).
"""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import msgspec


class Type(msgspec.Struct, eq=False):
    """Base of all types. `atomic` means that server-side apply treats a value as one leaf. `prepared` caches what the
    two walks of every write (`normalize.py`, `compare.py`) derive from the type.
    """

    atomic: bool = False
    prepared: dict[str, Any] = {}


class Scalar(Type):
    """string, int32, int64, bool, float64, bytes, quantity, time, microtime, intorstring, or an enumeration's name."""

    name: str = "string"
    values: tuple[str, ...] = ()


class Anything(Type):
    """No type is known: apply divides maps and takes lists whole."""


class ListOf(Type):
    """`keys` name the fields that identify an element of an associative list; `is_set` marks a set of scalars."""

    item: Type = msgspec.field(default_factory=Anything)
    keys: tuple[str, ...] = ()
    is_set: bool = False


class MapOf(Type):
    value: Type = msgspec.field(default_factory=Anything)


class Field(msgspec.Struct, eq=False):
    name: str
    type: Type
    number: int = 0
    pointer: bool = False
    keep: bool = False
    required: bool = False
    omit_zero: bool = False
    default: str | None = None
    strategy: str = ""
    merge_key: str = ""


class Struct(Type):
    name: str = ""
    fields: dict[str, Field] = {}
    inlined: list[tuple[int, "Struct"]] = []
    """Structs whose fields stand among ours in JSON but in a message of their own (by number) in protobuf."""
    open: bool = False
    """Unknown fields are kept (custom resources that say so)."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


_SCALAR_NAMES = "string int32 int64 bool float64 bytes quantity time microtime intorstring"


class SchemaOr(Type):
    """A JSON schema, or one of something else: a list of them, a bool, a list of strings
    (CustomResourceDefinitions)."""

    name: str = ""
    schema: Struct = msgspec.field(default_factory=Struct)


SCALARS = frozenset(_SCALAR_NAMES.split(" "))
_UNIONS = frozenset({"JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"})


class _Reader:
    def __init__(self, text: str) -> None:
        self.structs: dict[str, Struct] = {}
        self._enums: dict[str, tuple[str, ...]] = {}
        self._rows: dict[str, list[list[str]]] = {}
        for line in text.splitlines():
            self._line(line)
        for name in self._rows:
            self._fill(name)

    def _line(self, line: str) -> None:
        words = line.split()
        if line.startswith("  "):
            self._rows[next(reversed(self._rows))].append(words)
        elif words[0] == "enum":
            self._enums[words[1]] = tuple(words[2:])
        elif not line.startswith("#"):
            self._rows[words[0]] = []
            self.structs[words[0]] = Struct(atomic="atomic" in words, name=words[0])

    def _fill(self, name: str) -> Struct:
        struct = self.structs[name]
        rows, self._rows[name] = self._rows[name], []
        for words in rows:
            if words[0] == "...":
                inner = self._fill(words[1])
                struct.inlined.append((int(words[2]), inner))
                struct.fields |= inner.fields
            else:
                struct.fields[words[0]] = self._field(words)
        return struct

    def _field(self, words: list[str]) -> Field:
        name, shape, number, *marks = words
        options = dict(mark.partition("=")[::2] for mark in marks)
        strategy, _, merge_key = options.get("patch", "").partition(":")
        return Field(
            name=name,
            type=self._type(shape.removeprefix("*"), options),
            number=int(number),
            pointer=shape.startswith("*"),
            keep="keep" in options,
            required="required" in options or ("keep" in options and "optional" not in options),
            omit_zero="omitzero" in options,
            default=options["default"].strip('"') if "default" in options else None,
            strategy=strategy,
            merge_key=merge_key,
        )

    def _type(self, shape: str, options: dict[str, str]) -> Type:
        atomic = "atomic" in options
        if shape.startswith("["):
            keys = tuple(filter(None, options.get("keys", "").split(",")))
            is_set = "set" in options
            whole = atomic or not (keys or is_set)
            return ListOf(atomic=whole, item=self._type(shape[1:-1], {}), keys=keys, is_set=is_set)
        if shape.startswith("{"):
            return MapOf(atomic=atomic, value=self._type(shape[1:-1], {}))
        if shape in SCALARS:
            return Scalar(name=shape)
        if shape in self._enums:
            return Scalar(name=shape, values=self._enums[shape])
        if shape in _UNIONS:
            return SchemaOr(atomic=True, name=shape, schema=self.structs["apiextensions.JSONSchemaProps"])
        if shape == "any":
            return Anything(atomic=True)
        struct = self.structs[shape]
        if atomic and not struct.atomic:
            return Struct(atomic=True, name=struct.name, fields=struct.fields, inlined=struct.inlined)
        return struct


@cache
def builtin_types() -> dict[str, Struct]:
    """Every struct of the built-in kinds by name, such as `core.Pod`."""
    return _Reader(resources.files(__package__).joinpath("types.txt").read_text()).structs


_PACKAGES = {
    "": "core",
    "apps": "apps",
    "batch": "batch",
    "autoscaling": "autoscaling",
    "policy": "policy",
}


def builtin_type(group: str, kind: str) -> Struct:
    package = _PACKAGES.get(group) or group.partition(".")[0]
    return builtin_types()[f"{package}.{kind}"]


def walk(struct: Struct) -> Iterator[Struct]:
    """A struct and every struct below it, each once."""
    seen: set[str] = set()
    pending: list[Type] = [struct]
    while pending:
        current = pending.pop()
        if isinstance(current, ListOf):
            pending.append(current.item)
        elif isinstance(current, MapOf):
            pending.append(current.value)
        elif isinstance(current, Struct) and current.name not in seen:
            seen.add(current.name)
            yield current
            pending.extend(entry.type for entry in current.fields.values())
