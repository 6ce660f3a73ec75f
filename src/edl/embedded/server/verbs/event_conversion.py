"""Converts Events between core/v1, as stored, and events.k8s.io/v1, which names the same fields differently."""

from typing import Any

import msgspec

from edl.embedded.server.registry import Resource

_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_OMITTED = ("reportingController", "reportingInstance")
_TO_CORE = {new: old for old, new in _TO_NEW.items()}


def needed(resource: Resource) -> bool:
    return resource.group == "events.k8s.io"


def outgoing(resource: Resource, body: bytes) -> bytes:
    """A stored body as this resource's version shows it."""
    if not needed(resource):
        return body
    return msgspec.json.encode(shown(resource, msgspec.json.decode(body)))


def incoming(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    """A client's object as it is stored."""
    return _renamed(obj, _TO_CORE) if needed(resource) else obj


def shown(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    """A stored object, decoded, as a patch of this resource's version expects it."""
    if not needed(resource):
        return obj
    renamed = _renamed(obj, _TO_NEW)
    return {key: value for key, value in renamed.items() if value or key not in _OMITTED}


def _renamed(obj: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in obj.items()}
