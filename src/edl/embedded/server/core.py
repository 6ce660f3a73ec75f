"""State shared by all handlers: the store, the registry, the clock and the source of identifiers. A simulation can
replace each of them.
"""

import os
import time
from collections.abc import Callable
from random import Random

import msgspec

from edl.api.kubernetes import timestamp
from edl.embedded.server import status
from edl.embedded.server.authorization import PodGroups, no_groups
from edl.embedded.server.crds.custom import CustomAdmission, admit_all
from edl.embedded.server.registry import Registry, Resource
from edl.embedded.server.storage.revisions import Entry
from edl.embedded.server.storage.store import Store
from edl.embedded.server.verbs.call import Object

_LARGEST_OBJECT = 6 << 20
"""Twice the largest request, because of managedFields. Without a bound patch after patch would add to an object."""

encode = msgspec.json.encode
decode = msgspec.json.decode


def _new_uid() -> str:
    """A random UUID (version 4); faster than `uuid.uuid4`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class Core(msgspec.Struct):
    store: Store
    registry: Registry
    clock: Callable[[], float] = time.time
    new_uid: Callable[[], str] = _new_uid
    random: Random = msgspec.field(default_factory=Random)
    """For names that are generated and times that are spread."""
    root_ca: str = ""
    """The PEM of the authority that signed the server's certificate; every namespace gets it as a ConfigMap."""
    service_network: str = "127.96.0.0/12"
    custom_admission: CustomAdmission = admit_all
    pod_groups: PodGroups = no_groups
    """API groups of custom resources that tokens of pods open, see `authorization`."""
    default_tokens: bool = True
    """Whether the default service account of a new namespace gives its pods a token, as Kubernetes has it."""
    _second: tuple[int, str] = (0, "")

    def now(self, ahead: float = 0) -> str:
        """The time in the form of metav1.Time, to the second."""
        second = int(self.clock() + ahead)
        if second != self._second[0]:
            self._second = (second, timestamp.text(second))
        return self._second[1]

    def read(self, resource: Resource, entry: Entry) -> Object:
        """The stored object, decoded anew, with kind and apiVersion: the caller may change it."""
        body: Object = decode(entry.body)
        return {"kind": resource.kind, "apiVersion": resource.api_version, **body}

    def peek(self, entry: Entry) -> Object:
        """The stored object, decoded once and kept with the entry, for objects that many requests read. Not to be
        changed.
        """
        if entry.decoded is None:
            entry.decoded = decode(entry.body)
        found: Object = entry.decoded
        return found

    def put(self, resource: Resource, obj: Object) -> Entry:
        """Stage an object under the next revision; kind and apiVersion are not stored."""
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.store.next_rv)
        body = _stored(obj)
        if len(body) > _LARGEST_OBJECT:
            raise status.too_large()
        return self.store.put(resource.storage, (meta.get("namespace", ""), meta["name"]), body)

    def remove(self, resource: Resource, obj: Object) -> Entry:
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.store.next_rv)
        return self.store.remove(resource.storage, (meta.get("namespace", ""), meta["name"]), _stored(obj))

    def ensure(self, group: str, version: str, plural: str, obj: Object) -> None:
        """Stages an object of the server itself, unless one of that name exists."""
        resource = self.registry.find(group, version, plural)
        assert resource is not None
        meta = obj["metadata"]
        if self.store.latest(resource.storage, (meta.get("namespace", ""), meta["name"])) is None:
            meta |= {"uid": self.new_uid(), "creationTimestamp": self.now()}
            self.put(resource, obj)

    def preview(self, obj: Object) -> Entry:
        """The entry that a dry run responds with; never staged."""
        meta = obj["metadata"]
        return Entry(meta.get("namespace", ""), meta["name"], self.store.rv, _stored(obj))


def _stored(obj: Object) -> bytes:
    return encode({key: value for key, value in obj.items() if key not in ("kind", "apiVersion")})
