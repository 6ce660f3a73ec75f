"""Server-side apply: merges a manager's configuration into the object, keeps other owners' fields, lists conflicts."""

from collections.abc import Iterator
from typing import Any

from edl.embedded.server import status
from edl.embedded.server.apply.compare import compare
from edl.embedded.server.apply.fieldset import (
    Fields,
    child_type,
    difference,
    element_of,
    intersection,
    is_leaf,
    is_member,
    members,
    of_applied,
    show,
    union,
)
from edl.embedded.server.apply.managed_fields import Manager, Ownership, ownable
from edl.embedded.server.types.model import ListOf, Scalar, Struct, Type
from edl.embedded.server.verbs.call import Object

BEFORE_FIRST = "before-first-apply"


def apply(
    kind: Type, live: Object, config: Object, *, manager: Manager, now: str, force: bool, ignored: tuple[str, ...] = ()
) -> Object:
    """The object after `manager` applied `config` to `live`, managedFields included. `ignored` top-level fields
    (status, or all but status) are not this endpoint's to set. Returns `live` itself when nothing changes."""
    ownership = Ownership(live["metadata"].get("managedFields"))
    if not ownership.fields and live["metadata"].get("uid"):
        _adopt(kind, live, ownership, manager, now)
    before = dict(ownership.fields)
    config = {key: value for key, value in config.items() if key not in ignored}
    declared = ownable(config)
    if not declared["metadata"]:
        del declared["metadata"]
    wanted = of_applied(kind, declared)
    _check_duplicates(kind, config, "")
    merged: Object = merge(kind, live, config)
    last = ownership.fields.get(manager, {})
    ownership.fields[manager] = wanted
    owned: Fields = {}
    for fields in ownership.fields.values():
        owned = union(owned, fields)
    merged = dict(prune(kind, merged, last, owned))
    _resolve_conflicts(kind, live, merged, ownership, manager, force)
    unchanged = ownable(merged) == ownable(live)
    if unchanged and ownership.fields == before:
        return live
    ownership.fields = {who: fields for who, fields in ownership.fields.items() if fields}
    if not unchanged:  # who joins the owners of what is there already is not dated
        ownership.times[manager] = now
    merged["metadata"] = {**merged["metadata"], "managedFields": ownership.entries()}
    return merged


def _adopt(kind: Type, live: Object, ownership: Ownership, manager: Manager, now: str) -> None:
    """An object without managedFields: its fields belong to the manager `before-first-apply`, not to the one who
    applies.
    """
    changed, _ = compare(kind, {"metadata": {}}, ownable(live))
    first = Manager(BEFORE_FIRST, "Update", manager.api_version)
    ownership.fields[first], ownership.times[first] = changed, now


def _resolve_conflicts(
    kind: Type, live: Object, merged: Object, ownership: Ownership, manager: Manager, force: bool
) -> None:
    changed, removed = compare(kind, ownable(live), ownable(merged))
    conflicts: list[tuple[Manager, tuple[str, ...]]] = []
    for other, fields in list(ownership.fields.items()):
        if other == manager:
            continue
        disputed = intersection(fields, changed)
        conflicts.extend((other, path) for path in members(disputed))
        ownership.fields[other] = difference(difference(fields, disputed), removed)
    if conflicts and not force:
        raise _conflict(conflicts)


def _conflict(conflicts: list[tuple[Manager, tuple[str, ...]]]) -> status.ApiError:
    conflicts.sort(key=lambda conflict: (conflict[0].describe(), show(conflict[1])))
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who.describe()}", "field": show(path)}
        for who, path in conflicts
    ]
    if len(conflicts) == 1:
        who, path = conflicts[0]
        text = f"Apply failed with 1 conflict: conflict with {who.describe()}: {show(path)}"
    else:
        lines: list[str] = []
        for who in dict.fromkeys(who for who, _ in conflicts):
            lines.append(f"conflicts with {who.describe()}:")
            lines += [f"- {show(path)}" for other, path in conflicts if other == who]
        text = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return status.ApiError(409, "Conflict", text, {"causes": causes})


def merge(kind: Type, live: Any, config: Any) -> Any:
    """`config` over `live`: maps and associative lists are merged, everything else is replaced."""
    if config is None or live is None or is_leaf(kind, config) or is_leaf(kind, live) or type(live) is not type(config):
        return config
    if isinstance(config, dict):
        result = dict(live)
        for key, value in config.items():
            below, _ = child_type(kind, key)
            result[key] = merge(below, live[key], value) if key in live else value
        return result
    assert isinstance(kind, ListOf)
    return _merge_lists(kind, live, config)


def _merge_lists(kind: ListOf, live: list[Any], config: list[Any]) -> list[Any]:
    """Elements that only `live` has stay where they are relative to their neighbours; the others take `config`'s
    order."""
    before = {element_of(kind, item): item for item in live}
    merged = {
        element_of(kind, item): merge(kind.item, before.get(element_of(kind, item)), item) if item is not None else item
        for item in config
    }
    order = list(merged)
    result: list[Any] = []
    placed = 0
    for element, item in before.items():
        if element not in merged:
            result.append(item)
        elif element in order[placed:]:
            upto = order.index(element) + 1
            result.extend(merged[name] for name in order[placed:upto])
            placed = upto
    return result + [merged[name] for name in order[placed:]]


def prune(kind: Type, value: Any, last: Fields, owned: Fields) -> Any:
    """Removes what this manager declared last time, does not declare now, and nobody else owns."""
    if not last or is_leaf(kind, value):
        return value
    if isinstance(value, dict):
        kept: dict[str, Any] = {}
        for key, item in value.items():
            below, _ = child_type(kind, key)
            survives, item = _prune_child(below, f"f:{key}", item, last, owned)
            if survives:
                kept[key] = item
        return kept
    assert isinstance(kind, ListOf)
    items = []
    for item in value:
        survives, item = _prune_child(kind.item, element_of(kind, item) or "", item, last, owned)
        if survives:
            items.append(item)
    return items


def _prune_child(kind: Type, element: str, item: Any, last: Fields, owned: Fields) -> tuple[bool, Any]:
    was = last.get(element)
    if was is None:
        return True, item
    still = owned.get(element)
    if is_member(was) and still is None:
        return False, None
    pruned = prune(kind, item, was, still or {})
    return bool(pruned) or still is not None or not item, pruned


def _check_duplicates(kind: Type, value: Any, path: str) -> None:
    """An associative list in an applied configuration must name each element once."""
    if is_leaf(kind, value):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            _check_duplicates(child_type(kind, key)[0], item, f"{path}.{key}")
        return
    assert isinstance(kind, ListOf)
    seen: set[str] = set()
    for item in value:
        element = element_of(kind, item)
        if element is None:
            keys = ", ".join(kind.keys)
            raise _unmergeable(
                f"{path}: element 0: associative list with keys has an element that omits key field {keys}"
            )
        if element in seen:
            raise _unmergeable(f"{path}: duplicate entries for key {show((element,))}")
        seen.add(element)
        if isinstance(item, dict):
            _check_duplicates(kind.item, item, path + show((element,)))


def _unmergeable(why: str) -> status.ApiError:
    return status.ApiError(500, "", f"failed to create typed patch object: {why}")


def refuse_undeclared(kind: Type, config: Object, what: str) -> None:
    """Apply accepts no field that the type does not declare, whatever `fieldValidation` is."""
    found = list(_undeclared(kind, config, ""))
    if found:
        texts = [f"{path}: field not declared in schema" for path in found]
        listed = texts[0] if len(texts) == 1 else "errors:\n  " + "\n  ".join(texts)
        raise status.ApiError(500, "", f"failed to create typed patch object ({what}): {listed}")


def _undeclared(kind: Type, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            below, declared = child_type(kind, key)
            if (
                not declared
                and isinstance(kind, Struct)
                and not kind.open
                and (path or key not in ("kind", "apiVersion"))
            ):
                yield f"{path}.{key}"
            elif not isinstance(below, Scalar):
                yield from _undeclared(below, item, f"{path}.{key}")
    elif isinstance(value, list) and isinstance(kind, ListOf):
        for index, item in enumerate(value):
            element = element_of(kind, item) if kind.keys else None
            yield from _undeclared(kind.item, item, path + (show((element,)) if element else f"[{index}]"))
