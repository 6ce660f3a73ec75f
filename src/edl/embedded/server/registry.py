"""Which resources this server has: the built-in ones as a table, those of CustomResourceDefinitions added and removed
while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from edl.embedded.server.types import Struct

READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """What a path below an object answers: `kind` (with group and version when they are not the resource's own) and
    its verbs."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
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
    type: Struct = field(default_factory=Struct)
    """The shape of its objects."""
    custom: Any = None
    """What the CustomResourceDefinition says of this version; None for a built-in resource."""
    prefix: bytes = field(default=b"", compare=False)
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
        """Forget every version of a custom resource, and versions and groups that have nothing left."""
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
