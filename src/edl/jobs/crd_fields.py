"""Compares the schemas of a kind: which fields one version of EDL knows and another does not.

An API server drops fields that its schema does not have, so an operator whose kinds are older loses what it writes.
"""

from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]
"""A version and the names of fields, with `[]` for the items of a list."""


def fields_of(spec: dict[str, Any]) -> set[Path]:
    """Of a CustomResourceDefinition's spec."""
    return {
        (version["name"], *path)
        for version in spec["versions"]
        for path in schema_fields((version.get("schema") or {}).get("openAPIV3Schema") or {})
    }


def schema_fields(schema: Any, at: Path = ()) -> Iterator[Path]:
    for name, inner in (schema.get("properties") or {}).items():
        yield (*at, name)
        yield from schema_fields(inner, (*at, name))
    if isinstance(items := schema.get("items"), dict):
        yield from schema_fields(items, (*at, "[]"))


def named_fields(paths: set[Path], most: int = 3) -> str:
    """Those nearest to the root: what is below them is missing with them."""
    tops = sorted(path for path in paths if not any(path[:length] in paths for length in range(1, len(path))))
    more = f" and {len(tops) - most} more" if len(tops) > most else ""
    return ", ".join(".".join(path) for path in tops[:most]) + more
