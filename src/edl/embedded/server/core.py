"""What every handler shares: the store, the resources, the clock and the source of identifiers. All of it can be
replaced by a simulation."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import msgspec

from edl.embedded.server.call import Object
from edl.embedded.server.custom import Check, no_further_rules
from edl.embedded.server.registry import Registry, Resource
from edl.embedded.server.revisions import Entry
from edl.embedded.server.store import Store

encode = msgspec.json.encode
decode = msgspec.json.decode


def _new_uid() -> str:
    """A random UUID (version 4), without the detour through the class."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


@dataclass(slots=True)
class Core:
    store: Store
    registry: Registry
    clock: Callable[[], float] = time.time
    new_uid: Callable[[], str] = _new_uid
    dice: Random = field(default_factory=Random)
    """For names that are generated and times that are spread."""
    root_ca: str = ""
    """The PEM of the authority that signed the server's certificate; every namespace gets it as a ConfigMap."""
    service_network: str = "127.96.0.0/12"
    further_rules: Check = no_further_rules
    _second: tuple[int, str] = field(default=(0, ""))

    def now(self, ahead: float = 0) -> str:
        """The time in the form of metav1.Time, to the second."""
        second = int(self.clock() + ahead)
        if second != self._second[0]:
            self._second = (second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        return self._second[1]

    def read(self, resource: Resource, entry: Entry) -> Object:
        """The stored object, decoded anew, with kind and apiVersion: the caller may change it."""
        body: Object = decode(entry.body)
        return {"kind": resource.kind, "apiVersion": resource.api_version, **body}

    def peek(self, entry: Entry) -> Object:
        """The stored object, decoded once and kept with the entry: for what many requests read. Not to be changed."""
        if entry.decoded is None:
            entry.decoded = decode(entry.body)
        found: Object = entry.decoded
        return found

    def put(self, resource: Resource, obj: Object) -> Entry:
        """Stage an object under the next revision; kind and apiVersion are not stored."""
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.store.next_rv)
        return self.store.put(resource.storage, (meta.get("namespace", ""), meta["name"]), _stored(obj))

    def remove(self, resource: Resource, obj: Object) -> Entry:
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.store.next_rv)
        return self.store.remove(resource.storage, (meta.get("namespace", ""), meta["name"]), _stored(obj))

    def ensure(self, group: str, version: str, plural: str, obj: Object) -> None:
        """Stage an object of the server's own making, unless there is one of that name."""
        resource = self.registry.find(group, version, plural)
        assert resource is not None
        meta = obj["metadata"]
        if self.store.latest(resource.storage, (meta.get("namespace", ""), meta["name"])) is None:
            meta |= {"uid": self.new_uid(), "creationTimestamp": self.now()}
            self.put(resource, obj)

    def preview(self, obj: Object) -> Entry:
        """What a dry run answers with: an entry that was never staged."""
        meta = obj["metadata"]
        return Entry(meta.get("namespace", ""), meta["name"], self.store.rv, _stored(obj))


def _stored(obj: Object) -> bytes:
    return encode({key: value for key, value in obj.items() if key not in ("kind", "apiVersion")})
