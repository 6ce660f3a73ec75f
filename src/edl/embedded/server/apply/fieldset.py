"""Sets of field paths in the form in which `managedFields` stores them (FieldsV1), and the algebra on them.

A set is a tree of dicts. Keys are path elements: `f:name` for a field or map key, `k:{"name":"x"}` for an element of an
associative list, `v:"x"` for an element of a set. A node that is itself in the set is empty or holds the key `.`.
The root is only a container: an empty root is the empty set.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from edl.embedded.server.types.model import Anything, ListOf, MapOf, Scalar, Struct, Type

Fields = dict[str, Any]

_encode = msgspec.json.Encoder(order="deterministic").encode


def is_member(node: Fields) -> bool:
    return not node or "." in node


def union(left: Fields, right: Fields) -> Fields:
    result = dict(left)
    for element, node in right.items():
        mine = result.get(element)
        result[element] = node if mine is None else _union(mine, node)
    return result


def _union(left: Fields, right: Fields) -> Fields:
    if not left or not right:
        whole = left or right
        return {".": {}, **whole} if whole else {}
    return union(left, right)


def difference(left: Fields, right: Fields) -> Fields:
    """The members of `left` that are not members of `right`."""
    result: Fields = {}
    for element, node in left.items():
        other = right.get(element)
        kept = node if other is None else _difference(node, other)
        if kept is not None:
            result[element] = kept
    return result


def _difference(left: Fields, right: Fields) -> Fields | None:
    member = is_member(left) and not is_member(right)
    children = difference(_children(left), _children(right))
    return _node(children, member)


def intersection(left: Fields, right: Fields) -> Fields:
    result: Fields = {}
    for element, node in left.items():
        other = right.get(element)
        if other is not None:
            kept = _node(intersection(_children(node), _children(other)), is_member(node) and is_member(other))
            if kept is not None:
                result[element] = kept
    return result


def _node(children: Fields, member: bool) -> Fields | None:
    if not children:
        return {} if member else None
    return {".": {}, **children} if member else children


def _children(node: Fields) -> Fields:
    return {element: child for element, child in node.items() if element != "."} if "." in node else node


def without(fields: Fields, *paths: tuple[str, ...]) -> Fields:
    """`fields` with whole subtrees taken out."""
    for path in paths:
        fields = _without(fields, path)
    return fields


def _without(fields: Fields, path: tuple[str, ...]) -> Fields:
    head = fields.get(path[0])
    if head is None:
        return fields
    result = {element: node for element, node in fields.items() if element != path[0]}
    if len(path) > 1:
        rest = _without(head, path[1:])
        if rest or not head:
            result[path[0]] = rest
    return result


def members(fields: Fields, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for element, node in fields.items():
        if element != ".":
            here = (*path, element)
            if is_member(node):
                yield here
            yield from members(node, here)


def show(path: tuple[str, ...]) -> str:
    """A path as conflicts print it: `.spec.containers[name="c"].image`."""
    text = ""
    for element in path:
        kind, value = element[0], element[2:]
        if kind == "f":
            text += f".{value}"
        elif kind == "k":
            keys = msgspec.json.decode(value)
            text += "[" + ",".join(f"{name}={msgspec.json.encode(key).decode()}" for name, key in keys.items()) + "]"
        else:
            text += f"[={value}]" if kind == "v" else f"[{value}]"
    return text


def element_of(kind: ListOf, item: Any) -> str | None:
    """The path element of an element of a list that is not atomic; None when it lacks its keys."""
    if kind.is_set:
        return "v:" + _encode(item).decode()
    if not isinstance(item, dict):
        return None
    if len(kind.keys) == 1:
        value = item.get(kind.keys[0])
        if type(value) is str and len(value) <= 256:
            return _named(kind.keys[0], value)
    keys: dict[str, Any] = {}
    for key in kind.keys:
        value = item.get(key)
        if value is None:
            value = _default(kind.item, key)
            if value is None:
                continue
        keys[key] = value
    return "k:" + _encode(keys).decode() if keys else None


@lru_cache(maxsize=8192)
def _named(key: str, value: str) -> str:
    return "k:" + _encode({key: value}).decode()


def _default(kind: Type, key: str) -> str | None:
    field = kind.fields.get(key) if isinstance(kind, Struct) else None
    return field.default if field is not None else None


def child_type(kind: Type, key: str) -> tuple[Type, bool]:
    """The type below a field or map key, and whether it is a declared field."""
    if isinstance(kind, Struct):
        field = kind.fields.get(key)
        return (field.type, True) if field is not None else (_ANYTHING, False)
    return (kind.value, False) if isinstance(kind, MapOf) else (_ANYTHING, False)


_ANYTHING = Anything()


def is_leaf(kind: Type, value: Any) -> bool:
    """Whether a value counts as one field, whatever is in it."""
    if kind.atomic or isinstance(kind, Scalar) or not isinstance(value, (dict, list)):
        return True
    return isinstance(value, list) and not (isinstance(kind, ListOf) and (kind.keys or kind.is_set))


def of_applied(kind: Type, value: Any) -> Fields:
    """The fields that an applied configuration names: leaves, list elements, map entries and empty containers."""
    return _applied_list(kind, value) if isinstance(value, list) else _applied_map(kind, value)


def _applied_map(kind: Type, value: dict[str, Any]) -> Fields:
    result: Fields = {}
    for key, item in value.items():
        below, declared = child_type(kind, key)
        if is_leaf(below, item):
            result[f"f:{key}"] = {}
            continue
        node = of_applied(below, item)
        if item == {} or not declared:
            node = {".": {}, **node} if node else {}
        elif not node:
            continue
        result[f"f:{key}"] = node
    return result


def _applied_list(kind: Type, value: list[Any]) -> Fields:
    assert isinstance(kind, ListOf)
    result: Fields = {}
    for item in value:
        element = element_of(kind, item)
        if element is not None:
            node = of_applied(kind.item, item) if isinstance(item, dict) else {}
            result[element] = {".": {}, **node} if node else {}
    return result
