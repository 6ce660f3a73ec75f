"""The declared types as a plain tree, from which the explaining decoder, the CRDs and the reference are all derived.

msgspec knows the types already; this keeps of them what the three readers need, under names of our own.
"""

from typing import Any, Literal

import msgspec
from msgspec import inspect

from edl.api.schema.spec import Rule

Form = Literal[
    "object",
    "map",
    "list",
    "text",
    "integer",
    "number",
    "boolean",
    "choice",
    "quantity",
    "priority",
    "template",
    "anything",
]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    form: Form
    description: str = ""
    fields: dict[str, "Shape"] = {}
    required: tuple[str, ...] = ()
    open: bool = False
    """Unknown fields of this object are passed over."""
    rules: tuple[Rule, ...] = ()
    element: "Shape | None" = None
    """Of a list's items or a map's values."""
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    pattern: str | None = None
    grammar: str | None = None
    """A pattern for API servers alone: `edl.jobs.validation` says better what is wrong."""
    choices: tuple[object, ...] = ()
    """Text or whole numbers."""
    key: str = ""
    """Of a list of objects: the field that is unique in it."""

    @property
    def of(self) -> "Shape":
        """The element, which every list and map has."""
        assert self.element is not None
        return self.element


_known: dict[Any, Shape] = {}


def shape_of(kind: Any) -> Shape:
    """The shape of a type, made once."""
    if kind not in _known:
        _known[kind] = _shape(inspect.type_info(kind), "", {})
    return _known[kind]


def _shape(info: inspect.Type, description: str, extra: dict[str, Any]) -> Shape:
    if isinstance(info, inspect.Metadata):
        described = (info.extra_json_schema or {}).get("description", "")
        return _shape(info.type, description or described, extra | (info.extra or {}))
    if isinstance(info, inspect.UnionType):
        return _union(info, description, extra)
    if isinstance(info, inspect.StructType):
        return _object(info, description)
    if extra.get("template"):
        return Shape(form="template", description=description)
    if isinstance(info, inspect.AnyType) or extra.get("anything"):
        return Shape(form="anything", description=description)
    if isinstance(info, inspect.DictType):
        return Shape(form="map", description=description, element=_shape(info.value_type, "", {}))
    if isinstance(info, inspect.VarTupleType | inspect.ListType):
        item = _shape(info.item_type, "", {})
        return Shape(form="list", description=description, element=item, key=extra.get("key", ""))
    return msgspec.structs.replace(_scalar(info, description), grammar=extra.get("grammar"))


def _union(info: inspect.UnionType, description: str, extra: dict[str, Any]) -> Shape:
    """`X | None` is an optional X; the two real unions are marked where they are declared."""
    if extra.get("quantity"):
        return Shape(form="quantity", description=description)
    if extra.get("priority"):
        return Shape(form="priority", description=description, minimum=1)
    [only] = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    return _shape(only, description, extra)


def _object(info: inspect.StructType, description: str) -> Shape:
    return Shape(
        form="object",
        description=description or (info.cls.__doc__ or "").strip(),
        fields={field.encode_name: _shape(field.type, "", {}) for field in info.fields},
        required=tuple(field.encode_name for field in info.fields if field.required),
        open=not info.forbid_unknown_fields,
        rules=getattr(info.cls, "RULES", ()),
    )


def _scalar(info: inspect.Type, description: str) -> Shape:
    match info:
        case inspect.LiteralType(values):
            return Shape(form="choice", description=description, choices=values)
        case inspect.BoolType():
            return Shape(form="boolean", description=description)
        case inspect.IntType():
            return Shape(form="integer", description=description, minimum=info.ge, maximum=info.le)
        case inspect.FloatType():
            return Shape(form="number", description=description)
        case inspect.StrType():
            return Shape(form="text", description=description, min_length=info.min_length, pattern=info.pattern)
    raise TypeError(f"{info} has no place in a spec")
