"""From an object that should exist and the one seen under its name, to what is to be done about it.

Whose an object is, is decided by uid and by nothing else: ours has the job as its controller; an orphan of ours has no
controller but the job's uid as a label, and is taken back; what an earlier job of the same name left behind is waited
for; everything else is somebody else's and never touched.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from edl.api.annotations import LABEL_JOB
from edl.api.core import Job, ReplicaSet, StatefulSet
from edl.api.meta import ObjectMeta, OwnerReference
from edl.jobs.intents import Change, Create, Intent, add, escaped, replace

LABEL_UID = "edl.dev/job-uid"
FINGERPRINT = "edl.dev/fingerprint"  # of the spec we last wrote, and the generation that writing it led to

Standing = Literal["absent", "ours", "orphan", "going", "leftover", "foreign"]


class Owner(msgspec.Struct, frozen=True):
    """The object that children belong to: the job, or (for its trainers) the job's own batch Job."""

    api_version: str
    kind: str
    name: str
    uid: str

    def reference(self) -> dict[str, Any]:
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


class Seen(Protocol):
    """Any object of the cluster as it was last seen."""

    @property
    def metadata(self) -> ObjectMeta: ...


class Child(msgspec.Struct, frozen=True):
    """An object that should exist. `scale` is the path and value of its size, which we set whenever it differs."""

    kind: str
    body: dict[str, Any]
    scale: tuple[str, int] | None = None
    template: bool = False
    """Its `/spec/template` may be changed, and is when the fingerprint says so."""

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name


def standing(seen: Seen | None, owner: Owner, job_uid: str) -> Standing:
    if seen is None:
        return "absent"
    metadata = seen.metadata
    controller = metadata.controller
    if controller is None:
        return "orphan" if metadata.labels.get(LABEL_UID) == job_uid else "foreign"
    if controller.uid == owner.uid:
        return "going" if metadata.deletion_timestamp is not None else "ours"
    return "leftover" if _of_an_earlier(controller, metadata, owner) else "foreign"


def _of_an_earlier(controller: OwnerReference, metadata: ObjectMeta, owner: Owner) -> bool:
    same = (controller.kind, controller.name) == (owner.kind, owner.name)
    return same and LABEL_JOB in metadata.labels


def reconcile_child(child: Child, seen: Seen | None, owner: Owner, job_uid: str, size: int | None) -> list[Intent]:
    """`size` is the one seen, for a child that has a size. Nothing is to be done where the name is not ours (yet)."""
    stands = standing(seen, owner, job_uid)
    if stands == "absent":
        return [Create(child.kind, child.name, signed(child, owner))]
    if seen is None or stands not in ("ours", "orphan"):
        return []
    patch = [*_adoption(seen, owner, stands), *_differences(child, seen, size)]
    return [change(child.kind, seen, patch)] if patch else []


def size_of(seen: object) -> int | None:
    """How many pods a workload should have as it was seen, None for what has no size."""
    if isinstance(seen, Job):
        return seen.spec.parallelism
    return seen.spec.replicas if isinstance(seen, ReplicaSet | StatefulSet) else None


def change(kind: str, seen: Seen, patch: list[dict[str, Any]], subresource: str | None = None) -> Change:
    """The version goes into the patch, too: the server refuses it if the object has changed since."""
    version = seen.metadata.resource_version
    held = replace("/metadata/resourceVersion", version)
    return Change(kind, seen.metadata.name, version, (held, *patch), subresource)


def signed(child: Child, owner: Owner) -> dict[str, Any]:
    metadata = dict(child.body["metadata"], ownerReferences=[owner.reference()])
    if child.template:
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = annotations | {FINGERPRINT: _fingerprint(child, 1)}
    return dict(child.body, metadata=metadata)


def adoption(seen: Seen, owner: Owner) -> dict[str, Any]:
    """Takes an orphan back. Whoever removed its owner may have emptied the list or left others in it."""
    others = [reference_of(other) for other in seen.metadata.owner_references if other.uid != owner.uid]
    return add("/metadata/ownerReferences", [*others, owner.reference()])


def reference_of(owner: OwnerReference) -> dict[str, Any]:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def _adoption(seen: Seen, owner: Owner, stands: Standing) -> list[dict[str, Any]]:
    return [adoption(seen, owner)] if stands == "orphan" else []


def _differences(child: Child, seen: Seen, size: int | None) -> list[dict[str, Any]]:
    """What to set right. Comparing a template with the server's copy is hopeless (the server fills in defaults), so we
    note what we wrote and which generation came of it: a later generation is another hand's."""
    metadata = seen.metadata
    drifted = child.template and _drifted(child, metadata)
    resized = child.scale is not None and size != child.scale[1]
    patch: list[dict[str, Any]] = []
    if resized and child.scale is not None:
        patch.append(add(*child.scale))
    if drifted:
        patch.append(replace("/spec/template", child.body["spec"]["template"]))
    if patch and child.template:
        patch.append(_note(metadata.annotations, _fingerprint(child, metadata.generation + 1)))
    return patch


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
