"""Garbage collection: deletes objects whose owners are gone, in the background, before their owner, or orphans them.

An owner counts as gone only when the server says so, for the very uid that the reference names: a cache may be late,
and a namesake is another object. Objects in one namespace cannot be owned from another.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from edl.embedded.controllers.discovery import Kinds, discover
from edl.embedded.controllers.graph import Graph, Known, Owned, Reference
from edl.embedded.tasks import background, work
from edl.kube.cache.informer import Informer
from edl.kube.controllers.workqueue import WorkQueue
from edl.kube.rest.client import Client, Propagation
from edl.kube.rest.errors import ApiError, KubeError
from edl.kube.rest.resource import Resource

log = logging.getLogger(__name__)

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
_IGNORED = {("", "Event"), ("events.k8s.io", "Event")}
_WORKERS = 8


class GarbageCollector:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._graph = Graph()
        self._kinds = Kinds({})
        self._queue: WorkQueue[str] = WorkQueue()
        self._informers: dict[Resource, tuple[Informer[Owned], asyncio.Task[None]]] = {}
        self._kinds_changed = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All kinds are known and followed when this gives way."""
        try:
            await self._follow_kinds()
            await asyncio.gather(*(informer.wait_synced() for informer, _ in self._informers.values()))
            workers = [work(self._queue, self._process, "garbage") for _ in range(_WORKERS)]
            async with background(*workers, self._keep_kinds()):
                yield
        finally:
            tasks = [task for _, task in self._informers.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # Following every kind

    async def _keep_kinds(self) -> None:
        """Kinds come and go with CustomResourceDefinitions."""
        while True:
            await self._kinds_changed.wait()
            self._kinds_changed.clear()
            try:
                await self._follow_kinds()
            except KubeError as error:
                log.warning("the kinds of objects could not be listed: %s", error)
                self._kinds_changed.set()
            await asyncio.sleep(0.5)

    async def _follow_kinds(self) -> None:
        self._kinds = await discover(self._client)
        wanted = {one for one in self._kinds if (one.group, one.kind) not in _IGNORED}
        for resource in self._informers.keys() - wanted:
            self._informers.pop(resource)[1].cancel()
        for resource in wanted - self._informers.keys():
            informer: Informer[Owned] = Informer(self._client, resource, Owned)
            informer.add_handler("garbage", lambda old, new, r=resource: self._changed(r, old, new), self._queue.add)  # type: ignore[misc]
            task = asyncio.create_task(informer.run(), name=f"garbage: {resource.plural}")
            self._informers[resource] = (informer, task)

    def _changed(self, resource: Resource, old: Owned | None, new: Owned | None) -> Iterable[str]:
        """Keep the graph; the uids to process because of the change."""
        if resource == CRDS:
            self._kinds_changed.set()  # whatever changed: a definition is served only once its status says so
        if new is None:
            if old is None:
                return []
            owners = [owner.uid for owner in old.metadata.owner_references]
            return [*self._graph.remove(old), *owners]
        self._graph.put(resource, new)
        meta = new.metadata
        interesting = bool(meta.owner_references) or {FOREGROUND, ORPHAN} & set(meta.finalizers)
        return [meta.uid] if interesting else []

    # Looking at one object

    async def _process(self, uid: str) -> float | None:
        known = self._graph.get(uid)
        if known is None:
            return None
        meta = known.item.metadata
        if meta.deletion_timestamp is not None:
            if ORPHAN in meta.finalizers:
                await self._orphan(known)
            elif FOREGROUND in meta.finalizers:
                await self._delete_in_foreground(known)
            return None
        if meta.owner_references:
            await self._collect(known)
        return None

    async def _collect(self, known: Known) -> None:
        """Delete what has no owner left; of several owners, forget those that are gone."""
        owners = known.item.metadata.owner_references
        present = [await self._is_present(known, owner) for owner in owners]
        if not any(present):
            await self._delete(known, _policy(known))
            return
        waiting = [owner for owner, here in zip(owners, present, strict=True) if here and self._waits(owner)]
        if waiting and len(waiting) == sum(present):
            blocking = any(True for _ in self._graph.blocking(known.item.metadata.uid))
            await self._delete(known, "Foreground" if blocking else "Background")
        elif not all(present) or waiting:
            gone = {owner.uid for owner, here in zip(owners, present, strict=True) if not here or owner in waiting}
            await self._drop_owners(known, gone)

    def _waits(self, owner: Reference) -> bool:
        """Whether the owner is being deleted in the foreground: then its dependents go first."""
        known = self._graph.get(owner.uid)
        meta = known.item.metadata if known is not None else None
        return meta is not None and meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers

    async def _is_present(self, known: Known, owner: Reference) -> bool:
        found = self._graph.get(owner.uid)
        namespace = known.item.metadata.namespace
        if found is not None and found.item.metadata.namespace in ("", namespace):
            return True
        resource = self._kinds.find(owner.api_version, owner.kind)
        if resource is None:
            self._kinds_changed.set()  # a server may list a new kind a while after it serves it
            raise LookupError(
                f"{known.item.metadata.name}: nobody knows its owner's kind {owner.api_version} {owner.kind}"
            )
        if resource.namespaced and not namespace:
            return False  # a cluster-wide object cannot be owned by one in a namespace
        try:
            live = await self._client.get(resource, owner.name, namespace=namespace if resource.namespaced else None)
        except ApiError as error:
            if error.is_not_found:
                return False
            raise
        return bool(live["metadata"]["uid"] == owner.uid)

    async def _delete(self, known: Known, propagation: Propagation) -> None:
        meta = known.item.metadata
        try:
            await self._client.delete(
                known.resource,
                meta.name,
                namespace=meta.namespace or None,
                uid=meta.uid,
                resource_version=meta.resource_version,
                propagation=propagation,
            )
        except ApiError as error:
            if not error.is_not_found:
                raise

    async def _delete_in_foreground(self, known: Known) -> None:
        uid = known.item.metadata.uid
        for dependent in self._graph.dependents(uid):
            self._queue.add(dependent.item.metadata.uid)
        if not any(True for _ in self._graph.blocking(uid)):
            await self._drop_finalizer(known, FOREGROUND)

    async def _orphan(self, known: Known) -> None:
        uid = known.item.metadata.uid
        for dependent in self._graph.dependents(uid):
            await self._drop_owners(dependent, {uid})
        await self._drop_finalizer(known, ORPHAN)

    async def _drop_owners(self, known: Known, uids: set[str]) -> None:
        kept = [owner for owner in known.item.metadata.owner_references if owner.uid not in uids]
        body = [
            {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": owner.controller,
                "blockOwnerDeletion": owner.block_owner_deletion,
            }
            for owner in kept
        ]
        await self._patch(known, {"ownerReferences": body or None})

    async def _drop_finalizer(self, known: Known, finalizer: str) -> None:
        kept = [name for name in known.item.metadata.finalizers if name != finalizer]
        await self._patch(known, {"finalizers": kept or None})

    async def _patch(self, known: Known, change: dict[str, Any]) -> None:
        """Bound to the version that was read: somebody else's change is a conflict, and a retry."""
        meta = known.item.metadata
        body = {"metadata": {**change, "uid": meta.uid, "resourceVersion": meta.resource_version}}
        try:
            await self._client.patch(known.resource, meta.name, body, namespace=meta.namespace or None)
        except ApiError as error:
            if not error.is_not_found:
                raise


def _policy(known: Known) -> Propagation:
    """How an object that is deleted because of its owner is deleted itself: as its own finalizers say."""
    finalizers = known.item.metadata.finalizers
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
