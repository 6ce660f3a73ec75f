"""Compares two objects and returns the changed and removed fields as sets, from which `managedFields` is updated."""

from collections.abc import Callable
from typing import Any

from edl.embedded.server.apply.fieldset import Fields, child_type, element_of, is_leaf
from edl.embedded.server.types.model import ListOf, MapOf, Scalar, Struct, Type


def compare(kind: Type, old: dict[str, Any], new: dict[str, Any]) -> tuple[Fields, Fields]:
    """(added or modified, removed)."""
    changed: Fields = {}
    removed: Fields = {}
    _maps(kind, old, new, changed, removed)
    return changed, removed


def _maps(kind: Type, old: dict[str, Any], new: dict[str, Any], changed: Fields, removed: Fields) -> None:
    for key, value in new.items():
        before = old.get(key, _ABSENT)
        if before is value or before == value:
            continue
        below, _ = child_type(kind, key)
        _values(below, f"f:{key}", before, value, changed, removed)
    for key, before in old.items():
        if key not in new:
            below, _ = child_type(kind, key)
            removed[f"f:{key}"] = whole(below, before)


_ABSENT = object()


def _values(kind: Type, element: str, old: Any, new: Any, changed: Fields, removed: Fields) -> None:
    """Two values that differ; `old` may be absent."""
    if old is _ABSENT:
        changed[element] = whole(kind, new)
    elif is_leaf(kind, new) and is_leaf(kind, old):
        changed[element] = {}
    elif old is None:  # written as null: the container was there, its contents are new
        changed[element] = {key: node for key, node in whole(kind, new).items() if key != "."}
    elif is_leaf(kind, new) or is_leaf(kind, old) or type(old) is not type(new):
        changed[element], removed[element] = whole(kind, new), whole(kind, old)
    else:
        added: Fields = {}
        gone: Fields = {}
        if isinstance(new, dict):
            _maps(kind, old, new, added, gone)
        else:
            _lists(kind, old, new, added, gone)
        if added:
            changed[element] = added
        if gone:
            removed[element] = gone


def _lists(kind: Type, old: list[Any], new: list[Any], changed: Fields, removed: Fields) -> None:
    assert isinstance(kind, ListOf)
    before = {element_of(kind, item): item for item in old}
    after = {element_of(kind, item): item for item in new}
    for element, item in after.items():
        if element is None:
            continue
        was = before.get(element, _ABSENT)
        if was != item:
            _values(kind.item, element, was, item, changed, removed)
    for element, was in before.items():
        if element is not None and element not in after:
            removed[element] = whole(kind.item, was)


Walk = Callable[[Any], Fields]

_LEAF: Fields = {}
"""Shared by every set: nothing changes a set in place."""


def whole(kind: Type, value: Any) -> Fields:
    """Every node of a value that is new or gone, containers included."""
    return _walk_of(kind)(value)


def _walk_of(kind: Type) -> Walk:
    """The walk of one type, prepared once: naming the fields that it sets is most of the cost of a creation."""
    walk: Walk | None = kind.prepared.get("whole")
    if walk is None:
        walk = kind.prepared["whole"] = _prepare(kind)
    return walk


def _prepare(kind: Type) -> Walk:
    if kind.atomic or isinstance(kind, Scalar):
        return lambda value: _LEAF
    if isinstance(kind, Struct):
        return _struct_walk(kind)
    if isinstance(kind, MapOf):
        return _map_walk(kind.value)
    if isinstance(kind, ListOf) and (kind.keys or kind.is_set):
        return _list_walk(kind)
    return _any_walk


def _struct_walk(kind: Struct) -> Walk:
    names: dict[str, tuple[str, Type | None]] = {
        name: (f"f:{name}", None if field.type.atomic or isinstance(field.type, Scalar) else field.type)
        for name, field in kind.fields.items()
    }

    def walk(value: Any) -> Fields:
        if not value or type(value) is not dict:
            return _LEAF
        result: Fields = {".": _LEAF}
        for key, item in value.items():
            known = names.get(key)
            if known is None:
                result[f"f:{key}"] = _any_walk(item)
            elif item is None or known[1] is None:
                result[known[0]] = _LEAF
            else:
                result[known[0]] = _walk_of(known[1])(item)
        return result

    return walk


def _map_walk(kind: Type) -> Walk:
    def walk(value: Any) -> Fields:
        if not value or type(value) is not dict:
            return _LEAF
        inner = _walk_of(kind)
        result: Fields = {".": _LEAF}
        for key, item in value.items():
            result[f"f:{key}"] = inner(item)
        return result

    return walk


def _list_walk(kind: ListOf) -> Walk:
    def walk(value: Any) -> Fields:
        if not value or type(value) is not list:
            return _any_walk(value)
        inner = _walk_of(kind.item)
        result: Fields = {".": _LEAF}
        for item in value:
            element = element_of(kind, item)
            if element is not None:
                result[element] = inner(item)
        return result

    return walk


def _any_walk(value: Any) -> Fields:
    if not value or type(value) is not dict:
        return _LEAF
    return {".": _LEAF, **{f"f:{key}": _any_walk(item) for key, item in value.items()}}
