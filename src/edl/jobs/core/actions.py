"""Actions on the cluster, as data: the results of pure decisions, run by `edl.operator`.

Each one is safe to run late or twice: a creation has a name of its own, a change names the version it was decided
on, a deletion names the uid that it means.
"""

from typing import Any

import msgspec


class Create(msgspec.Struct, frozen=True):
    kind: str
    name: str
    body: dict[str, Any]


class Change(msgspec.Struct, frozen=True):
    """A JSON Patch of the object, or of its status, as it was at this version."""

    kind: str
    name: str
    version: str
    patch: tuple[dict[str, Any], ...]
    subresource: str | None = None


class Delete(msgspec.Struct, frozen=True):
    kind: str
    name: str
    uid: str


Action = Create | Change | Delete


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def add(path: str, value: Any) -> dict[str, Any]:
    """Adds or replaces a member of an object that exists."""
    return {"op": "add", "path": path, "value": value}


def escaped(key: str) -> str:
    """A key as one step of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1")
