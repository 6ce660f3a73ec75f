"""Structural schemas of custom resources: pruning, defaulting, and the translation into the types that apply walks."""

import copy
from collections.abc import Iterator
from typing import Any

from edl.embedded.server.types.model import Anything, Field, ListOf, MapOf, Scalar, Struct, Type, builtin_types

Schema = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
_SCALARS = {"integer": "int64", "number": "float64", "boolean": "bool", "string": "string"}


def prune(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Drops fields that the schema does not know, in place; yields the path of each."""
    if isinstance(value, dict):
        yield from _prune_object(value, schema, path)
    elif isinstance(value, list):
        items = schema.get("items")
        for index, item in enumerate(value):
            if isinstance(items, dict):
                yield from prune(item, items, f"{path}[{index}]")


def _prune_object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    known = {"apiVersion", "kind", "metadata"} if not path or schema.get(EMBEDDED) else ()
    for name in list(value):
        below = f"{path}.{name}" if path else name
        if name in known:
            continue
        if name in properties:
            yield from prune(value[name], properties[name], below)
        elif isinstance(additional, dict):
            yield from prune(value[name], additional, below)
        elif not schema.get(PRESERVE) and not additional:
            del value[name]
            yield below


def fill_defaults(value: Any, schema: Schema) -> None:
    """Sets absent fields (and nulls that may not be null) to their defaults, in place."""
    if isinstance(value, dict):
        additional = schema.get("additionalProperties")
        for name, inner in (schema.get("properties") or {}).items():
            _default_one(value, name, inner)
        if isinstance(additional, dict):
            for name in value:
                if name not in (schema.get("properties") or {}):
                    fill_defaults(value[name], additional)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            fill_defaults(item, schema["items"])


def _default_one(value: dict[str, Any], name: str, schema: Schema) -> None:
    if name in value and value[name] is None and not schema.get("nullable"):
        del value[name]  # a null in a field that is not nullable counts as absent
    if name not in value and "default" in schema:
        value[name] = copy.deepcopy(schema["default"])
    if name in value:
        fill_defaults(value[name], schema)


def to_type(schema: Schema, *, root: bool = False) -> Type:
    """The schema as a type, for server-side apply and field validation."""
    kind = schema.get("type")
    if schema.get(INT_OR_STRING):
        return Scalar(name="intorstring")
    if kind == "array":
        return _list(schema)
    if kind == "object" or "properties" in schema:
        return _object(schema, root)
    return Scalar(name=_SCALARS[kind]) if kind in _SCALARS else Anything()


def _list(schema: Schema) -> ListOf:
    style = schema.get("x-kubernetes-list-type", "atomic")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if style == "map" else ()
    whole = style == "atomic"
    return ListOf(atomic=whole, item=to_type(schema.get("items") or {}), keys=keys, is_set=style == "set")


def _object(schema: Schema, root: bool) -> Type:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if not properties and isinstance(additional, dict):
        return MapOf(atomic=atomic, value=to_type(additional))
    if not properties and not root and schema.get(PRESERVE):
        return Anything(atomic=atomic)
    fields = {}
    for name, inner in properties.items():
        default = inner.get("default")
        default = default if isinstance(default, str) else None
        fields[name] = Field(
            name=name, type=to_type(inner), required=name in schema.get("required", ()), default=default
        )
    if root or schema.get(EMBEDDED):
        meta = builtin_types()["meta.ObjectMeta"]
        fields["metadata"] = Field(name="metadata", type=meta)
        for name in ("apiVersion", "kind"):
            fields.setdefault(name, Field(name=name, type=Scalar()))
    return Struct(atomic=atomic, fields=fields, open=bool(schema.get(PRESERVE)) or bool(additional))
