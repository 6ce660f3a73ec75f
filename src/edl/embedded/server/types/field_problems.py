"""Locates unknown and duplicate fields: the slow walk that runs only when the fast one (`normalize.py`) found some."""

import json
from collections.abc import Iterator
from typing import Any

from edl.embedded.server.types.model import ListOf, MapOf, SchemaOr, Struct, Type


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as written: duplicates and order kept."""


def problems(body: bytes, kind: Type) -> list[str]:
    """`unknown field "spec.x"` and `duplicate field "spec.y"`, in the order of the document."""
    document = json.loads(body, object_pairs_hook=_Pairs)
    return list(_walk(document, kind, ""))


def _walk(value: Any, kind: Type | None, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        yield from _object(value, kind.schema if isinstance(kind, SchemaOr) else kind, path)
    elif isinstance(value, list):
        item = kind.item if isinstance(kind, ListOf) else None
        for index, element in enumerate(value):
            yield from _walk(element, item, f"{path}[{index}]")


def _object(value: _Pairs, kind: Type | None, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for name, element in value:
        below = f"{path}.{name}" if path else name
        if name in seen:
            yield f'duplicate field "{below}"'
        seen.add(name)
        inner: Type | None = None
        if isinstance(kind, Struct):
            field = kind.fields.get(name)
            if field is None and not kind.open and not (not path and name in ("kind", "apiVersion")):
                yield f'unknown field "{below}"'
                continue
            inner = field.type if field is not None else None
        elif isinstance(kind, MapOf):
            inner = kind.value
        yield from _walk(element, inner, below)
