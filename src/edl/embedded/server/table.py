"""Tables: the columns that `kubectl get` prints, computed by the server."""

from __future__ import annotations

from typing import Any, Protocol


class Columns(Protocol):
    def definitions(self) -> list[dict[str, Any]]: ...

    def cells(self, obj: dict[str, Any]) -> list[Any]: ...


class NameAndAge:
    """What every kind has."""

    def definitions(self) -> list[dict[str, Any]]:
        name = {"name": "Name", "type": "string", "format": "name", "description": "The object's name.", "priority": 0}
        created = {
            "name": "Created At",
            "type": "date",
            "format": "",
            "description": "When the object was created.",
            "priority": 0,
        }
        return [name, created]

    def cells(self, obj: dict[str, Any]) -> list[Any]:
        return [obj["metadata"]["name"], obj["metadata"]["creationTimestamp"]]
