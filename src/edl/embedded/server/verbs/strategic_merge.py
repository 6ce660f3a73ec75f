"""Strategic merge patch: merges lists by key where the type says so, and obeys the patch's directives."""

from typing import Any

import msgspec

from edl.embedded.server import status
from edl.embedded.server.apply.fieldset import child_type
from edl.embedded.server.types.model import Field, ListOf, Struct, Type

_PATCH = "$patch"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"


def merge(kind: Type, target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """`target` with `patch` applied; neither is changed."""
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise status.bad_request(f"Unknown patch type: {directive} found in patch")
    result = dict(target) if isinstance(target, dict) else {}
    if _RETAIN in patch:
        _require_list(_RETAIN, patch[_RETAIN])
        result = {key: value for key, value in result.items() if key in patch[_RETAIN]}
    for key, value in patch.items():
        if key.startswith("$"):
            _apply_directive(kind, result, patch, key, value)
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _merge_value(kind, key, result.get(key), value, patch.get(_ORDER + key))
    return result


def _apply_directive(kind: Type, result: dict[str, Any], patch: dict[str, Any], key: str, value: Any) -> None:
    if key.startswith((_DELETE_FROM, _ORDER)):
        _require_list(key, value)
    if key.startswith(_DELETE_FROM):
        name = key.removeprefix(_DELETE_FROM)
        result[name] = [item for item in result.get(name) or [] if item not in value]
    elif key.startswith(_ORDER):
        name = key.removeprefix(_ORDER)
        if name not in patch and isinstance(result.get(name), list):
            result[name] = _ordered(_field(kind, name), result[name], value, result[name])
    elif key not in (_PATCH, _RETAIN):
        raise status.bad_request(f"unknown directive {key} found in patch")


def _require_list(directive: str, value: Any) -> None:
    if not isinstance(value, list):
        raise status.bad_request(f"invalid value for {directive} in patch: a list is expected")


def _merge_value(kind: Type, key: str, target: Any, value: Any, order: Any) -> Any:
    below, _ = child_type(kind, key)
    field = _field(kind, key)
    strategies = field.strategy.split(",") if field is not None else []
    if isinstance(value, dict):
        return value if "replace" in strategies else merge(below, target, value)
    if isinstance(value, list) and isinstance(below, ListOf):
        if field is not None and "merge" in strategies:
            present = target if isinstance(target, list) else []
            merged = _merge_list(below, field, present, value)
            return _ordered(field, merged, order if isinstance(order, list) else value, present)
        return [
            item for item in value if not (isinstance(item, dict) and item.get(_PATCH) == "replace" and len(item) == 1)
        ]
    return value


def _field(kind: Type, key: str) -> Field | None:
    return kind.fields.get(key) if isinstance(kind, Struct) else None


def _merge_list(kind: ListOf, field: Field, target: list[Any], patch: list[Any]) -> list[Any]:
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and item.get(_PATCH) == "replace")]
    if not field.merge_key:  # a list of scalars
        added = {_identity(field, item): item for item in patch}
        return [*target, *(item for item in added.values() if item not in target)]
    result = list(target)
    for item in patch:
        _merge_item(kind, field, result, item)
    return result


def _merge_item(kind: ListOf, field: Field, result: list[Any], item: Any) -> None:
    if not isinstance(item, dict) or field.merge_key not in item:
        shown = " ".join(f"{key}:{value}" for key, value in sorted(item.items())) if isinstance(item, dict) else item
        raise status.ApiError(500, "", f"map: map[{shown}] does not contain declared merge key: {field.merge_key}")
    key = item[field.merge_key]
    matching = [
        index for index, have in enumerate(result) if isinstance(have, dict) and have.get(field.merge_key) == key
    ]
    if item.get(_PATCH) == "delete":
        for index in reversed(matching):
            del result[index]
    elif matching:
        result[matching[0]] = merge(kind.item, result[matching[0]], item)
    else:
        result.append(merge(kind.item, {}, item))


def _ordered(field: Field | None, items: list[Any], order: list[Any], present: list[Any]) -> list[Any]:
    """Elements named by `order` take its order; the others keep theirs and stay before those they stood before."""
    wanted = [_identity(field, item) for item in order]
    places = {_identity(field, item): index for index, item in enumerate(present)}
    named = [item for item in items if _identity(field, item) in wanted]
    named.sort(key=lambda item: wanted.index(_identity(field, item)))
    rest = [item for item in items if _identity(field, item) not in wanted]
    result: list[Any] = []
    while named and rest:
        place = places.get(_identity(field, named[0]))
        source = rest if place is not None and place > places[_identity(field, rest[0])] else named
        result.append(source.pop(0))
    return result + named + rest


def _identity(field: Field | None, item: Any) -> bytes:
    """Identity of an element: its merge key, or the whole. Encoded, because clients send any type."""
    key = field.merge_key if field is not None else ""
    return msgspec.json.encode(item.get(key) if key and isinstance(item, dict) else item)
