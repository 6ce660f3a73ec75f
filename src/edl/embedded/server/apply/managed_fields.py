"""`metadata.managedFields`: the last writer of each field, updated on every write that is not an apply."""

from typing import Any, NamedTuple

from edl.embedded.server import status
from edl.embedded.server.apply.compare import compare
from edl.embedded.server.apply.fieldset import Fields, difference, intersection, union
from edl.embedded.server.types.model import Type
from edl.embedded.server.verbs.call import Object

# What identifies an object, and what only the server sets, has no owner.
UNOWNED = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
_MOST_UPDATERS = 10
_ANCIENT = "ancient-changes"


class Manager(NamedTuple):
    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def describe(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


class Ownership:
    """The decoded list: fields and time per manager."""

    def __init__(self, entries: list[Object] | None) -> None:
        self.fields: dict[Manager, Fields] = {}
        self.times: dict[Manager, str] = {}
        for entry in entries or ():
            if entry.get("fieldsType", "FieldsV1") != "FieldsV1":
                raise status.bad_request("metadata.managedFields: fieldsType must be FieldsV1")
            manager = Manager(
                entry.get("manager", ""),
                entry.get("operation", "Update"),
                entry.get("apiVersion", ""),
                entry.get("subresource", ""),
            )
            self.fields[manager] = entry.get("fieldsV1") or {}
            self.times[manager] = entry.get("time") or ""

    def entries(self) -> list[Object]:
        order = sorted(self.fields, key=lambda who: (who.operation, self.times.get(who, ""), who))
        return [self._entry(manager) for manager in order]

    def _entry(self, manager: Manager) -> Object:
        entry: Object = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": self.times.get(manager, ""),
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields[manager],
        }
        if not entry["time"]:
            del entry["time"]
        if manager.subresource:
            entry["subresource"] = manager.subresource
        return entry

    def take(self, manager: Manager, changed: Fields, removed: Fields, now: str) -> None:
        """`manager` changed and removed these fields: it owns what it changed, and nobody owns what is gone."""
        for other, fields in list(self.fields.items()):
            if changed and intersection(fields, changed):
                fields = difference(fields, changed)
            if removed:
                fields = difference(fields, removed)
            self._keep(other, fields)
        if changed:
            self.fields[manager] = union(self.fields.get(manager, {}), changed)
            self.times[manager] = now

    def _keep(self, manager: Manager, fields: Fields) -> None:
        if fields:
            self.fields[manager] = fields
        else:
            self.fields.pop(manager, None)

    def cap(self) -> None:
        """Merges the oldest updaters, so that the list does not grow with every client that ever wrote."""
        updaters = [manager for manager in self.fields if manager.operation == "Update"]
        updaters.sort(key=lambda who: (self.times.get(who, ""), who))
        excess = len(updaters) - _MOST_UPDATERS
        if excess <= 0:
            return
        for manager in updaters[: excess + 1]:
            bucket = Manager(_ANCIENT, "Update", manager.api_version)
            fields, time = self.fields.pop(manager), self.times.get(manager, "")
            self.fields[bucket] = union(self.fields.get(bucket, {}), fields)
            self.times[bucket] = time


def ownable(obj: Object) -> Object:
    """The part of an object whose fields have owners."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in UNOWNED}
    return {**{key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}, "metadata": meta}


def _record_first(kind: Type, old: Object, new: Object, manager: Manager, now: str) -> None:
    """A creation, which is the most frequent case: one manager, and no earlier owner."""
    changed, _ = compare(kind, ownable(old), ownable(new))
    if changed:
        ownership = Ownership(None)
        ownership.fields[manager], ownership.times[manager] = changed, now
        new["metadata"]["managedFields"] = ownership.entries()


def record(kind: Type, old: Object, new: Object, *, manager: Manager, now: str, given: Any = None) -> None:
    """Sets `new`'s managedFields after an update. `given` are those that the client sent: it may edit them, not drop
    them all.
    """
    before = old["metadata"].get("managedFields")
    if given is not None and given in ([], [{}]):
        new["metadata"].pop("managedFields", None)
        return
    if not before and not given:
        _record_first(kind, old, new, manager, now)
        return
    ownership = Ownership(given or before)
    changed, removed = compare(kind, ownable(old), ownable(new))
    ownership.take(manager, changed, removed, now)
    ownership.cap()
    entries = ownership.entries()
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)
