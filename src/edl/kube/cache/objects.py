"""The metadata that `kube` needs of an object. Any msgspec Struct that has it will do."""

from collections.abc import Mapping, Sequence
from typing import Protocol

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is the empty string."""


class Owner(Protocol):
    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def controller(self) -> bool: ...


class Metadata(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def owner_references(self) -> Sequence[Owner]: ...


class Object(Protocol):
    @property
    def metadata(self) -> Metadata: ...


def key_of(item: Object) -> Key:
    return item.metadata.namespace, item.metadata.name


def name_of(key: Key) -> str:
    """As people write it: namespace/name, or the bare name."""
    return f"{key[0]}/{key[1]}" if key[0] else key[1]


def controller_of(item: Object) -> Owner | None:
    return next((owner for owner in item.metadata.owner_references if owner.controller), None)
