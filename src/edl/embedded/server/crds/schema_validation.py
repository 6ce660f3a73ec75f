"""Validation against a structural schema, with the messages of Kubernetes' validator. CEL rules are not evaluated."""

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import msgspec

from edl.embedded.server import causes
from edl.embedded.server.crds import patterns
from edl.embedded.server.crds.schema import INT_OR_STRING, Schema
from edl.embedded.server.status import Cause

_WORDS = {str: "string", bool: "boolean", dict: "object", list: "array", int: "integer", float: "number"}


def check(value: Any, schema: Schema, path: str = "") -> Iterator[Cause]:
    if value is None:
        if not schema.get("nullable") and schema.get("type"):
            yield _wrong_type(path, "null", schema["type"])
        return
    problem = _type_problem(value, schema, path)
    if problem is not None:
        yield problem
        return
    if isinstance(value, dict):
        yield from _object(value, schema, path)
    elif isinstance(value, list):
        yield from _array(value, schema, path)
    elif isinstance(value, str):
        yield from _string(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number(value, schema, path)
    yield from _enumeration(value, schema, path)
    yield from _combinations(value, schema, path)


def _type_problem(value: Any, schema: Schema, path: str) -> Cause | None:
    word = _WORDS[type(value)]
    if schema.get(INT_OR_STRING):
        return None if word in ("integer", "string") else _wrong_type(path, word, "integer,string")
    wanted = schema.get("type")
    if not wanted or word == wanted or (wanted == "number" and word == "integer"):
        return None
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        return None
    return _wrong_type(path, word, wanted)


def _wrong_type(path: str, got: str, wanted: str) -> Cause:
    message = f'Invalid value: "{got}": {path} in body must be of type {wanted}: "{got}"'
    return Cause("FieldValueTypeInvalid", message, path)


def _object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Cause]:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield causes.required(_join(path, name))
    for name in sorted(value):
        inner = properties.get(name, additional if isinstance(additional, dict) else None)
        if inner is not None:
            yield from check(value[name], inner, _join(path, name))
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items", path)
    if least is not None and len(value) < least:
        yield causes.invalid(path, len(value), f"{path} in body should have at least {least} properties")


def _array(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if least is not None and len(value) < least:
        yield causes.invalid(path, len(value), f"{path} in body should have at least {least} items")
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items", path)
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from check(item, items, f"{path}[{index}]")
    yield from _uniqueness(value, schema, path)


def _uniqueness(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    style = schema.get("x-kubernetes-list-type")
    if style not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        key = item
        if style == "map" and isinstance(item, dict):
            keys = schema.get("x-kubernetes-list-map-keys") or ()
            key = {name: item[name] for name in keys if name in item}
        encoded = msgspec.json.encode(key)
        if encoded in seen:
            yield causes.duplicate(f"{path}[{index}]", key)
        seen.add(encoded)


def _string(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        yield causes.too_long(path, most)
    elif least is not None and len(value) < least:
        yield causes.invalid(path, value, f"{path} in body should be at least {least} chars long")
    elif pattern is not None and not patterns.matches(pattern, value):
        yield causes.invalid(path, value, f"{path} in body should match '{pattern}'")
    style = schema.get("format")
    if style in ("date-time", "date") and not _is_moment(value, style):
        message = f'Invalid value: "{value}": {path} in body must be of type {style}: "{value}"'
        yield Cause("FieldValueTypeInvalid", message, path)


def _is_moment(text: str, style: str) -> bool:
    try:
        if style == "date":
            date.fromisoformat(text)
            return len(text) == 10
        return datetime.fromisoformat(text).tzinfo is not None and "T" in text.upper()
    except ValueError:
        return False


def _number(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    least, most, step = schema.get("minimum"), schema.get("maximum"), schema.get("multipleOf")
    if least is not None:
        if schema.get("exclusiveMinimum") and value <= least:
            yield causes.invalid(path, value, f"{path} in body should be greater than {_number_text(least)}")
        elif value < least:
            text = f"{path} in body should be greater than or equal to {_number_text(least)}"
            yield causes.invalid(path, value, text)
    if most is not None:
        if schema.get("exclusiveMaximum") and value >= most:
            yield causes.invalid(path, value, f"{path} in body should be less than {_number_text(most)}")
        elif value > most:
            yield causes.invalid(path, value, f"{path} in body should be less than or equal to {_number_text(most)}")
    if step and value % step:
        yield causes.invalid(path, value, f"{path} in body should be a multiple of {_number_text(step)}")


def _number_text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _enumeration(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    allowed = schema.get("enum")
    if allowed is not None and not any(_equal(value, choice) for choice in allowed):
        listed = ", ".join(causes.shown(choice) for choice in allowed)
        message = f"Unsupported value: {causes.shown(value)}: supported values: {listed}"
        yield Cause("FieldValueNotSupported", message, path)


def _equal(one: Any, other: Any) -> bool:
    """To Python 1 is True; to JSON it is not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _combinations(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    for inner in schema.get("allOf") or ():
        yield from check(value, inner, path)
    any_of, one_of, unwanted = schema.get("anyOf"), schema.get("oneOf"), schema.get("not")
    if any_of and not any(_holds(value, inner, path) for inner in any_of):
        yield _composite(path, "must validate at least one schema (anyOf)")
        yield from check(value, any_of[0], path)
    if one_of:
        fitting = sum(_holds(value, inner, path) for inner in one_of)
        if fitting == 0:
            yield _composite(path, "must validate one and only one schema (oneOf). Found none valid")
            yield from check(value, one_of[0], path)
        elif fitting > 1:
            text = f"must validate one and only one schema (oneOf). Found {fitting} valid alternatives"
            yield _composite(path, text)
    if unwanted and _holds(value, unwanted, path):
        yield _composite(path, "must not validate the schema (not)")


def _holds(value: Any, schema: Schema, path: str) -> bool:
    return next(check(value, schema, path), None) is None


def _composite(path: str, rule: str) -> Cause:
    return Cause("FieldValueInvalid", f'Invalid value: "": "{path}" {rule}', "<nil>")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
