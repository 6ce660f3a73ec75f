"""What changed between two objects, as sets of fields: the basis of every entry in `managedFields`."""

from __future__ import annotations

from typing import Any

from edl.embedded.server.fieldset import Fields, child_type, element_of, is_leaf
from edl.embedded.server.types import ListOf, Type


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


def whole(kind: Type, value: Any) -> Fields:
    """Every node of a value that is new or gone altogether, containers included."""
    if is_leaf(kind, value) or not value:
        return {}
    result: Fields = {".": {}}
    if isinstance(value, dict):
        for key, item in value.items():
            below, _ = child_type(kind, key)
            result[f"f:{key}"] = {} if item is None else whole(below, item)
    else:
        assert isinstance(kind, ListOf)
        for item in value:
            element = element_of(kind, item)
            if element is not None:
                result[element] = whole(kind.item, item)
    return result
