"""One informer per kind of object, shared by all controllers of a process that read it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from edl.api.kubernetes.pod_network import Pod
from edl.embedded.resources import PODS
from edl.embedded.tasks import background
from edl.kube.cache.indexes import Index, by_field, by_namespace, by_owner
from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import Object
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource

T = TypeVar("T", bound=Object)


class Caches:
    """Ask for what is needed, then enter `running`: all that was asked for is complete by then."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._informers: dict[Resource, Informer[Any]] = {}

    def of(self, resource: Resource, kind: type[T]) -> Informer[T]:
        if resource not in self._informers:
            indexes: dict[str, Index] = {"owner": by_owner, "namespace": by_namespace}
            if resource == PODS:
                indexes["node"] = by_field("spec.node_name")
            self._informers[resource] = Informer(self.client, resource, kind, indexes=indexes)
        return self._informers[resource]

    @property
    def pods(self) -> Informer[Pod]:
        return self.of(PODS, Pod)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        informers = list(self._informers.values())
        async with background(*(informer.run() for informer in informers)):
            await asyncio.gather(*(informer.wait_synced() for informer in informers))
            yield
