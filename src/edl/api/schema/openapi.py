"""Builds from a shape the structural OpenAPI schema that Kubernetes wants in a CRD."""

from typing import Any

from edl.api.annotations import LEVELS
from edl.api.schema.cel import validations
from edl.api.schema.shape import Shape

Schema = dict[str, Any]

# Quantities may be text or numbers with a fraction, for which structural schemas have no type. Without a type, a bound
# holds for values of its own type alone: text by the pattern, numbers by the minimum, lists and objects by their size.
_QUANTITY: Schema = {
    "x-kubernetes-preserve-unknown-fields": True,
    "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([eE][+-]?[0-9]+)|[numkMGTPE]|[KMGTPE]i)?$",
    "minimum": 0,
    "maxItems": 0,
    "maxProperties": 0,
    "not": {"enum": [True, False]},
}
_PRIORITY: Schema = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": f"^({'|'.join(LEVELS)}|[1-9][0-9]{{0,9}})$",
    "minimum": 1,
}
_OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TYPES = {"text": "string", "boolean": "boolean", "number": "number", "integer": "integer"}
_FIXED: dict[str, Schema] = {"quantity": _QUANTITY, "priority": _PRIORITY, "template": _OPEN, "anything": _OPEN}


def schema(shape: Shape) -> Schema:
    made = _FIXED[shape.form] if shape.form in _FIXED else _typed(shape)
    return {"description": shape.description, **made} if shape.description else dict(made)


def _typed(shape: Shape) -> Schema:
    match shape.form:
        case "object":
            return _object(shape)
        case "map":
            return {"type": "object", "additionalProperties": schema(shape.of)}
        case "list":
            keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [shape.key]} if shape.key else {}
            return {"type": "array", "items": schema(shape.of), **keyed}
        case "choice":
            text = isinstance(shape.choices[0], str)
            return {"type": "string" if text else "integer", "enum": list(shape.choices)}
    bounds = {
        "minimum": shape.minimum,
        "maximum": shape.maximum,
        "minLength": shape.min_length,
        "pattern": shape.pattern or shape.grammar,
        "format": _integer_format(shape),
    }
    return {"type": _TYPES[shape.form], **{name: bound for name, bound in bounds.items() if bound is not None}}


def _integer_format(shape: Shape) -> str | None:
    if shape.form != "integer":
        return None
    return "int32" if shape.maximum is not None and shape.maximum < 2**31 else "int64"


def _object(shape: Shape) -> Schema:
    made: Schema = {
        "type": "object",
        "properties": {name: schema(field) for name, field in shape.fields.items()},
    }
    if shape.required:
        made["required"] = list(shape.required)
    if rules := validations(shape):
        made["x-kubernetes-validations"] = rules
    return made
