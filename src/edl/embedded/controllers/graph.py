"""Ownership graph over all kinds of objects, fed by informers and read by the garbage collector. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from edl.api.kubernetes.meta import ObjectMeta, OwnerReference, Wire
from edl.kube.rest.resource import Resource


class Reference(OwnerReference, frozen=True):
    block_owner_deletion: bool = False


class Metadata(ObjectMeta, frozen=True):
    owner_references: tuple[Reference, ...] = ()


class Owned(Wire, frozen=True):
    """Any object, as the garbage collector reads it."""

    metadata: Metadata = Metadata()


class Known(NamedTuple):
    resource: Resource
    item: Owned


class Graph:
    """Objects by uid, and the uids of those that name an object as their owner."""

    def __init__(self) -> None:
        self._objects: dict[str, Known] = {}
        self._dependents: dict[str, set[str]] = {}

    def put(self, resource: Resource, item: Owned) -> None:
        uid = item.metadata.uid
        self._forget_owners(uid)
        self._objects[uid] = Known(resource, item)
        for owner in item.metadata.owner_references:
            self._dependents.setdefault(owner.uid, set()).add(uid)

    def remove(self, item: Owned) -> list[str]:
        """Forget an object; the uids of its dependents, which may have to go too."""
        uid = item.metadata.uid
        self._forget_owners(uid)
        self._objects.pop(uid, None)
        return sorted(self._dependents.get(uid, ()))

    def _forget_owners(self, uid: str) -> None:
        known = self._objects.get(uid)
        for owner in known.item.metadata.owner_references if known is not None else ():
            dependents = self._dependents.get(owner.uid)
            if dependents is not None:
                dependents.discard(uid)
                if not dependents:
                    del self._dependents[owner.uid]

    def get(self, uid: str) -> Known | None:
        return self._objects.get(uid)

    def dependents(self, uid: str) -> list[Known]:
        found = (self._objects.get(one) for one in sorted(self._dependents.get(uid, ())))
        return [known for known in found if known is not None]

    def blocking(self, uid: str) -> Iterable[Known]:
        """Dependents that a foreground deletion of the owner waits for."""
        for known in self.dependents(uid):
            if any(owner.uid == uid and owner.block_owner_deletion for owner in known.item.metadata.owner_references):
                yield known
