"""Registry of served resources: a table of built-in ones, and those of CustomResourceDefinitions, which come and go at
run time.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from edl.embedded.server.types.model import Struct

READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Subresource(msgspec.Struct, frozen=True):
    """Kind (with group and version when they are not the resource's own) and verbs of a path below an object."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class Resource(msgspec.Struct, frozen=True, eq=False):
    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = READ_WRITE
    subresources: tuple[Subresource, ...] = ()
    storage: str = ""
    """The key of the store: the same for every version of one resource (and for the two groups of events)."""
    type: Struct = msgspec.field(default_factory=Struct)
    """The shape of its objects."""
    custom: Any = None
    """The `CustomVersion` of a custom resource; None for a built-in one."""
    prefix: bytes = b""
    """`{"kind":...,"apiVersion":...,`: bodies are stored without these two, so that one stored body serves every
    version."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        return self.custom.list_kind if self.custom is not None else f"{self.kind}List"

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    def render(self, body: bytes) -> bytes:
        """The object as clients see it: the stored body under this version's kind and apiVersion."""
        return self.prefix + body[1:]


def resource(**facts: Any) -> Resource:
    group, version, kind = facts["group"], facts["version"], facts["kind"]
    api_version = f"{group}/{version}" if group else version
    facts.setdefault("storage", f"{group}/{facts['plural']}")
    return Resource(**facts, prefix=f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode())


class Registry:
    """Resources by (group, version, plural). Order of groups and versions is the order of preference in discovery."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._groups: dict[str, dict[str, dict[str, Resource]]] = {}
        self.generation = 0
        for entry in resources:
            self.add(entry)

    def add(self, entry: Resource) -> None:
        self._groups.setdefault(entry.group, {}).setdefault(entry.version, {})[entry.plural] = entry
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Removes every version of a custom resource, and versions and groups that are empty then."""
        versions = self._groups.get(group, {})
        for version in list(versions):
            versions[version].pop(plural, None)
            if not versions[version]:
                del versions[version]
        if not versions:
            self._groups.pop(group, None)
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._groups.get(group, {}).get(version, {}).get(plural)

    def has_version(self, group: str, version: str) -> bool:
        return version in self._groups.get(group, {})

    def groups(self) -> dict[str, list[str]]:
        return {group: list(versions) for group, versions in self._groups.items()}

    def of_version(self, group: str, version: str) -> list[Resource]:
        return list(self._groups.get(group, {}).get(version, {}).values())

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        return next((entry for entry in self.of_version(group, version) if entry.kind == kind), None)

    def __iter__(self) -> Iterator[Resource]:
        for versions in self._groups.values():
            for resources in versions.values():
                yield from resources.values()
