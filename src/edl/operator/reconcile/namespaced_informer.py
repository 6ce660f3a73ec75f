"""An informer whose lookups see objects of some namespaces only, for an operator that looks after those alone.

It reads all namespaces, as pods are read, and its handlers are told of all: what they lead to is looked up here and not
found.
"""

from collections.abc import Collection, Hashable
from typing import Any

from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import Key
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.operator.resources import RawJob


class NamespacedInformer(Informer[RawJob]):
    def __init__(self, client: Client, resource: Resource, namespaces: Collection[str], **options: Any) -> None:
        super().__init__(client, resource, RawJob, **options)
        self._namespaces = frozenset(namespaces)

    def get(self, key: Key) -> RawJob | None:
        return super().get(key) if key[0] in self._namespaces else None

    def all(self) -> list[RawJob]:
        return [one for one in super().all() if one.metadata.namespace in self._namespaces]

    def by(self, index: str, value: Hashable) -> list[RawJob]:
        return [one for one in super().by(index, value) if one.metadata.namespace in self._namespaces]
