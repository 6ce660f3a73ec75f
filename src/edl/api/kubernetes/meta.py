"""Metadata, conditions and selectors of Kubernetes objects: frozen structs of the fields that our decisions read.

These types are for reading. They drop what they do not name, so none of them is ever written back to a server.
Timestamps stay the strings they are on the wire (see `edl.api.kubernetes.timestamp`): most are never looked at.
"""

from collections.abc import Mapping
from typing import Any, Never

import msgspec


class _Empty(dict[str, Any]):
    """One empty, unchangeable mapping in place of a dict per absent field; pickles as itself."""

    def _refuse(self, *_: object, **__: object) -> Never:
        raise TypeError("this empty mapping is shared and cannot be changed")

    __setitem__ = update = setdefault = __ior__ = _refuse

    def __reduce__(self) -> str:
        return "EMPTY"


EMPTY: Mapping[str, Any] = _Empty()


class Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all read-only types: camelCase on the wire, unknown fields skipped. Trees without cycles need no gc."""


class OwnerReference(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages the object, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Condition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


class LabelRequirement(Wire, frozen=True):
    """One expression of a label selector, or of a node selector (which adds Gt and Lt)."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[LabelRequirement, ...] = ()
