"""Deletes the objects of a CustomResourceDefinition that is being deleted, then lifts its finalizer."""

import asyncio
import logging

from edl.embedded.server.admission import definitions
from edl.embedded.server.core import Core, decode
from edl.embedded.server.registry import Resource, resource
from edl.embedded.server.storage.revisions import Change
from edl.embedded.server.storage.store_file import StoreError
from edl.embedded.server.verbs import delete, update
from edl.embedded.server.verbs.call import Call, Object, Query

_log = logging.getLogger(__name__)


class DefinitionCleanup:
    """Keeps the registry in step with the definitions in the store, and deletes the objects of deleted definitions. It
    follows commits, so a definition whose write failed is never served.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._going: dict[str, Object] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._core.store.listen(definitions.STORAGE, self._changed)
        for entry in self._core.store.entries(definitions.STORAGE):
            self._consider(decode(entry.body))

    def _changed(self, changes: list[Change]) -> None:
        for change in changes:
            new = decode(change.entry.body)
            old = decode(change.old.body) if change.old is not None else None
            definitions.publish(self._core, None if change.deleted else new, old)
            if change.deleted:
                self._going.pop(new["metadata"]["name"], None)
            else:
                self._consider(new)

    def _consider(self, definition: Object) -> None:
        meta = definition["metadata"]
        if meta.get("deletionTimestamp") and definitions.CLEANUP in (meta.get("finalizers") or ()):
            self._going[meta["name"]] = definition
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._going:
            for definition in list(self._going.values()):
                try:
                    if self._sweep(definition):
                        self._release(definition)
                    await self._core.store.committed()
                except StoreError as error:
                    _log.warning("cleaning up %s: %s", definition["metadata"]["name"], error)
            await asyncio.sleep(0.05)  # retry while finalizers hold objects

    def _sweep(self, definition: Object) -> bool:
        """Delete every object of the definition; true when none is left."""
        spec = definition["spec"]
        kind = _kind(definition)
        left = list(self._core.store.entries(f"{spec['group']}/{spec['names']['plural']}"))
        for entry in left:
            if b'"deletionTimestamp"' not in entry.body:
                call = Call("DELETE", "", Query({}), kind, entry.namespace, entry.name)
                delete.delete_entry(self._core, call, entry, delete.DeleteOptions())
        return not left

    def _release(self, definition: Object) -> None:
        self._going.pop(definition["metadata"]["name"], None)
        resource_ = self._core.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource_ is not None
        name = definition["metadata"]["name"]
        call = Call("PATCH", "", Query({}), resource_, "", name, user_agent="apiextensions")

        def release(present: Object) -> Object:
            present["metadata"]["finalizers"] = [
                f for f in present["metadata"]["finalizers"] if f != definitions.CLEANUP
            ]
            return present

        update.edit(self._core, call, release)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _kind(definition: Object) -> Resource:
    """As much of a resource as a deletion needs: the definition may serve no version any more."""
    spec = definition["spec"]
    return resource(
        group=spec["group"],
        version=spec["versions"][0]["name"],
        plural=spec["names"]["plural"],
        singular="",
        kind=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )
