"""Tables that `kubectl get` prints: columns, each with a function from an object to a cell."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from edl.embedded.server.tables import jsonpath
from edl.embedded.server.tables.ages import since
from edl.embedded.server.verbs.call import Object


class Columns(Protocol):
    def definitions(self) -> list[Object]: ...

    def cells(self, obj: Object) -> list[Any]: ...


class Column(msgspec.Struct, frozen=True):
    """`priority` 1 is shown only with `-o wide`."""

    name: str
    cell: Callable[[Object], Any]
    type: str = "string"
    priority: int = 0
    description: str = ""
    format: str = ""

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or self.name,
            "priority": self.priority,
        }


class FixedColumns:
    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns

    def definitions(self) -> list[Object]:
        return [column.definition() for column in self._columns]

    def cells(self, obj: Object) -> list[Any]:
        return [column.cell(obj) for column in self._columns]


NAME = Column("Name", lambda obj: obj["metadata"]["name"], format="name")
AGE = Column("Age", lambda obj: since(obj["metadata"].get("creationTimestamp")))
CREATED = Column("Created At", lambda obj: obj["metadata"].get("creationTimestamp"), type="date")
PLAIN = FixedColumns([NAME, CREATED])


def custom_columns(wanted: Sequence[Object]) -> FixedColumns:
    """The columns a CustomResourceDefinition asks for; without any, the age."""
    if not wanted:
        return FixedColumns([NAME, Column("Age", AGE.cell, type="date")])
    return FixedColumns([NAME, *map(_custom_column, wanted)])


def _custom_column(column: Object) -> Column:
    path, kind = column["jsonPath"], column["type"]
    about = column.get("description") or f"Custom resource definition column (in JSONPath format): {path}"
    return Column(
        column["name"],
        lambda obj: _custom_cell(obj, path, kind),
        type=kind,
        priority=column.get("priority", 0),
        description=about,
        format=column.get("format", ""),
    )


def _custom_cell(obj: Object, path: str, kind: str) -> Any:
    found = jsonpath.find(obj, path)
    if not found:
        return None
    value = found[0]
    if kind == "date":
        return since(value) if isinstance(value, str) else "<unknown>"
    if kind == "string" and not isinstance(value, str):
        return _go_text(value)
    wanted = {"integer": (int,), "number": (int, float), "boolean": (bool,), "string": (str,)}.get(kind, (object,))
    return value if isinstance(value, wanted) else None


def _go_text(value: Any) -> str:
    """Lists and maps in a string column, as Go prints them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(f'"{item}"' if isinstance(item, str) else _go_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f'"{key}":{_quoted(item)}' for key, item in value.items()) + "}"
    return str(value)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else _go_text(value)
