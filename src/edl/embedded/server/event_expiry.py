"""Deletes Events one hour after their last write, as Kubernetes does, so that they cannot fill the store.

The time counts from the write, not from the times inside an Event, which its client chose. After a restart it counts
from the newest time that the server itself wrote into the object.
"""

import asyncio
import logging

from edl.api.kubernetes import timestamp
from edl.embedded.server import admission
from edl.embedded.server.core import Core, decode
from edl.embedded.server.registry import Resource
from edl.embedded.server.storage.revisions import Change, Entry, Key
from edl.embedded.server.storage.store_file import StoreError
from edl.embedded.server.verbs.call import Call, Object, Query

EVENT_SECONDS = 3600.0
_PERIOD = 30.0
_MOST_AT_ONCE = 500  # so that one turn of the event loop stays short
_STORAGE = "/events"
_log = logging.getLogger(__name__)


class EventExpiry:
    """`start()` follows the store's Events; `expire()` is one round."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._written: dict[Key, float] = {}
        """When each Event was last written. The life of all is equally long, so the oldest come first."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        now = self._core.clock()
        found = [(min(_written_at(decode(entry.body)), now), entry) for entry in self._core.store.entries(_STORAGE)]
        for moment, entry in sorted(found, key=lambda pair: pair[0]):
            self._written[entry.namespace, entry.name] = moment
        self._core.store.listen(_STORAGE, self._changed)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def _changed(self, changes: list[Change]) -> None:
        now = self._core.clock()
        for change in changes:
            key = (change.entry.namespace, change.entry.name)
            self._written.pop(key, None)
            if not change.deleted:
                self._written[key] = now

    async def _run(self) -> None:
        while True:
            try:
                more = await self.expire()
            except StoreError as error:
                _log.warning("events past their time could not be deleted: %s", error)
                more = False
            await asyncio.sleep(0 if more else _PERIOD)

    async def expire(self) -> bool:
        """Deletes the Events whose time is over; true when it left some of them for the next round."""
        before = self._core.clock() - EVENT_SECONDS
        due: list[Key] = []
        for key, moment in self._written.items():
            if moment > before or len(due) == _MOST_AT_ONCE:
                break
            due.append(key)
        for key in due:
            entry = self._core.store.latest(_STORAGE, key)
            if entry is not None and entry is self._core.store.get(_STORAGE, key):  # not being written right now
                self._delete(entry)
        await self._core.store.committed()
        return len(due) == _MOST_AT_ONCE

    def _delete(self, entry: Entry) -> None:
        resource = self._resource()
        old = self._core.read(resource, entry)
        self._core.remove(resource, self._core.read(resource, entry))
        call = Call("DELETE", "", Query({}), resource, entry.namespace, entry.name)
        admission.after(self._core, call, None, old)

    def _resource(self) -> Resource:
        resource = self._core.registry.find("", "v1", "events")
        assert resource is not None
        return resource

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _written_at(event: Object) -> float:
    meta = event["metadata"]
    times = [meta["creationTimestamp"], *(entry.get("time", "") for entry in meta.get("managedFields") or ())]
    return max(timestamp.seconds(text) for text in times if text)
