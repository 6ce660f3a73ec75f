"""Reconciles one child object: compares the desired one with the one observed under its name.

Ownership is decided by the controller's uid and by nothing else: labels and names are anybody's to write. An orphan of
ours has no controller but our seal, which nobody can make who has not the job's key, and is taken back; what an earlier
job of the same name left behind is waited for; everything else is somebody else's and never touched.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from edl.api.kubernetes.core import Job, ReplicaSet, Service, StatefulSet
from edl.api.kubernetes.meta import ObjectMeta, OwnerReference
from edl.api.labels import FINGERPRINT, LABEL_JOB, LABEL_UID, SEAL
from edl.jobs.core.actions import Action, Change, Create, add, escaped, replace

Ownership = Literal["absent", "ours", "orphan", "going", "leftover", "foreign"]


class Owner(msgspec.Struct, frozen=True):
    """The object that children belong to: the job, or (for its trainers) the job's own batch Job.

    `key` is the job's; without one nothing is sealed, and no orphan is known.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    key: str = ""

    def reference(self) -> dict[str, Any]:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def seal(key: str, kind: str, name: str) -> str:
    """Bound to the name: a copy of the object under another one proves nothing."""
    return hashlib.blake2b(f"{kind}/{name}".encode(), key=key.encode()[:64], digest_size=16).hexdigest()


def is_sealed(metadata: ObjectMeta, kind: str, key: str) -> bool:
    made = metadata.annotations.get(SEAL, "")
    return bool(key) and hmac.compare_digest(made.encode(), seal(key, kind, metadata.name).encode())


class ObservedObject(Protocol):
    """Any object of the cluster as it was last seen."""

    @property
    def metadata(self) -> ObjectMeta: ...


class ObservedChild(ObservedObject, Protocol):
    """One of Kubernetes' own kinds, under the name of a child."""

    KIND: ClassVar[str]


class Child(msgspec.Struct, frozen=True):
    """An object that should exist. `scale` is the path and value of its size, which we set whenever it differs."""

    kind: str
    body: dict[str, Any]
    scale: tuple[str, int] | None = None
    template: bool = False
    """Its `/spec/template` may be changed, and is when the fingerprint says so."""
    placed: dict[str, Any] | None = None
    """The template with the plan's nodes for the pods that are to be made from it. Written with a size that makes
    some, and no reason to write: the fingerprint does not count it, for what runs stays where it is."""
    restarts: bool = False
    """Its controller replaces the pods that run when the template changes."""

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name


def ownership(seen: ObservedChild | None, owner: Owner, job_uid: str) -> Ownership:
    if seen is None:
        return "absent"
    metadata = seen.metadata
    controller = metadata.controller
    if controller is None:
        labelled = metadata.labels.get(LABEL_UID) == job_uid
        return "orphan" if labelled and is_sealed(metadata, seen.KIND, owner.key) else "foreign"
    if controller.uid == owner.uid:
        return "going" if metadata.deletion_timestamp is not None else "ours"
    return "leftover" if _of_an_earlier(controller, metadata, owner) else "foreign"


def _of_an_earlier(controller: OwnerReference, metadata: ObjectMeta, owner: Owner) -> bool:
    same = (controller.kind, controller.name) == (owner.kind, owner.name)
    return same and LABEL_JOB in metadata.labels


def reconcile_child(
    child: Child, seen: ObservedChild | None, owner: Owner, job_uid: str, size: int | None
) -> list[Action]:
    """`size` is the one seen, for a child that has a size. Nothing is to be done where the name is not ours (yet)."""
    owned = ownership(seen, owner, job_uid)
    if owned == "absent":
        return [Create(child.kind, child.name, signed(child, owner))]
    if seen is None or owned not in ("ours", "orphan"):
        return []
    patch = [*_adoption(seen, owner, owned), *_differences(child, seen, size)]
    return [change(child.kind, seen, patch)] if patch else []


def size_of(seen: object) -> int | None:
    """How many pods a workload should have as it was seen, None for what has no size."""
    if isinstance(seen, Job):
        return seen.spec.parallelism
    return seen.spec.replicas if isinstance(seen, ReplicaSet | StatefulSet) else None


def change(kind: str, seen: ObservedObject, patch: list[dict[str, Any]], subresource: str | None = None) -> Change:
    """The version goes into the patch, too: the server refuses it if the object has changed since."""
    version = seen.metadata.resource_version
    held = replace("/metadata/resourceVersion", version)
    return Change(kind, seen.metadata.name, version, (held, *patch), subresource)


def redirected(seen: Service, selector: Mapping[str, str]) -> list[Action]:
    """A slot's Service leads to the pod that has the slot now. When another takes it over, that is one write."""
    if dict(seen.spec.selector) == selector:
        return []
    return [change(Service.KIND, seen, [replace("/spec/selector", selector)])]


def own_services(
    objects: Mapping[tuple[str, str], ObservedChild], owner: Owner, job_uid: str
) -> list[tuple[str, ObservedChild]]:
    """Services that are the job's, by name."""
    return [
        (name, seen)
        for (kind, name), seen in sorted(objects.items(), key=lambda item: item[0])
        if kind == Service.KIND and ownership(seen, owner, job_uid) == "ours"
    ]


def signed(child: Child, owner: Owner) -> dict[str, Any]:
    metadata = dict(child.body["metadata"], ownerReferences=[owner.reference()])
    notes = {FINGERPRINT: _fingerprint(child, 1)} if child.template else {}
    notes |= {SEAL: seal(owner.key, child.kind, child.name)} if owner.key else {}
    if notes:
        metadata["annotations"] = (metadata.get("annotations") or {}) | notes
    body = dict(child.body, metadata=metadata)
    return dict(body, spec=dict(body["spec"], template=child.placed)) if child.placed is not None else body


def adoption(seen: ObservedObject, owner: Owner) -> dict[str, Any]:
    """Takes an orphan back. Whoever removed its owner may have emptied the list or left others in it."""
    others = [reference_of(other) for other in seen.metadata.owner_references if other.uid != owner.uid]
    return add("/metadata/ownerReferences", [*others, owner.reference()])


def reference_of(owner: OwnerReference) -> dict[str, Any]:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def _adoption(seen: ObservedObject, owner: Owner, owned: Ownership) -> list[dict[str, Any]]:
    return [adoption(seen, owner)] if owned == "orphan" else []


def _differences(child: Child, seen: ObservedObject, size: int | None) -> list[dict[str, Any]]:
    """What to set right. Comparing a template with the server's copy is hopeless (the server fills in defaults), so we
    note what we wrote and which generation came of it: a later generation is another hand's."""
    metadata = seen.metadata
    drifted = child.template and _drifted(child, metadata)
    resized = child.scale is not None and size != child.scale[1]
    patch: list[dict[str, Any]] = []
    if resized and child.scale is not None:
        patch.append(add(*child.scale))
    template = _template_to_write(child, size, drifted=drifted)
    if template is not None:
        patch.append(replace("/spec/template", template))
    if patch and child.template:
        patch.append(_note(metadata.annotations, _fingerprint(child, metadata.generation + 1)))
    return patch


def _template_to_write(child: Child, size: int | None, *, drifted: bool) -> dict[str, Any] | None:
    if child.placed is not None and child.scale is not None:
        grows = (size or 0) < child.scale[1]
        if grows and (drifted or not size or not child.restarts):
            return child.placed
    template: dict[str, Any] | None = child.body["spec"]["template"] if drifted else None
    return template


def _drifted(child: Child, metadata: ObjectMeta) -> bool:
    """Setting right what was not wrong makes no new generation, so the noted one may be ahead of what is seen."""
    written, _, generation = metadata.annotations.get(FINGERPRINT, "").partition("-")
    return written != _digest(child) or not generation.isdigit() or metadata.generation > int(generation)


def _note(annotations: Mapping[str, str], fingerprint: str) -> dict[str, Any]:
    if annotations:
        return add(f"/metadata/annotations/{escaped(FINGERPRINT)}", fingerprint)
    return add("/metadata/annotations", {FINGERPRINT: fingerprint})


def _fingerprint(child: Child, generation: int) -> str:
    return f"{_digest(child)}-{generation}"


def _digest(child: Child) -> str:
    template = msgspec.json.encode(child.body["spec"]["template"], order="sorted")
    return hashlib.blake2b(template, digest_size=8).hexdigest()
