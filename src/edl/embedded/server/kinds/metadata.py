"""Validation of ObjectMeta, which every kind shares."""

from collections.abc import Iterator

from edl.embedded.server import causes, names
from edl.embedded.server.registry import Resource
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

_ANNOTATIONS_LIMIT = 256 << 10


def check_metadata(resource: Resource, meta: Object) -> Iterator[Cause]:
    if not meta.get("name"):
        yield causes.required("metadata.name", "name or generateName is required")
    else:
        yield from names.check(resource.storage, meta["name"])
    if resource.namespaced and not meta.get("namespace"):
        yield causes.required("metadata.namespace")
    yield from check_labels(meta.get("labels"), "metadata.labels")
    yield from _annotations(meta)
    yield from _owners(meta)
    yield from _finalizers(meta, standard=resource.custom is None and resource.group != "apiextensions.k8s.io")
    prefix = meta.get("generateName") or ""
    if prefix:
        whole = prefix[:-1] + "a" if prefix.endswith("-") else prefix
        for problem in names.problems(resource.storage, whole):
            yield causes.invalid("metadata.generateName", prefix, problem)


def _finalizers(meta: Object, *, standard: bool) -> Iterator[Cause]:
    for index, finalizer in enumerate(meta.get("finalizers") or ()):
        at = f"metadata.finalizers[{index}]"
        for problem in names.label_key_problems(finalizer):
            yield causes.invalid("metadata.finalizers", finalizer, problem)
        if standard and "/" not in finalizer and finalizer not in ("kubernetes", "orphan", "foregroundDeletion"):
            yield causes.invalid(at, finalizer, "name is neither a standard finalizer name nor is it fully qualified")


def check_labels(labels: dict[str, str] | None, path: str) -> Iterator[Cause]:
    for key, value in (labels or {}).items():
        for problem in names.label_key_problems(key):
            yield causes.invalid(path, key, problem)
        for problem in names.label_value_problems(value):
            yield causes.invalid(path, value, problem)


def _annotations(meta: Object) -> Iterator[Cause]:
    annotations = meta.get("annotations") or {}
    for key in annotations:
        for problem in names.label_key_problems(key.lower()):
            yield causes.invalid("metadata.annotations", key, problem)
    if annotations and sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield causes.too_long("metadata.annotations", _ANNOTATIONS_LIMIT)


def _owners(meta: Object) -> Iterator[Cause]:
    controllers = []
    for index, owner in enumerate(meta.get("ownerReferences") or ()):
        at = "metadata.ownerReferences"
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                detail = "version must not be empty" if field == "apiVersion" else "must not be empty"
                yield causes.invalid(f"{at}.{field}", owner.get(field, ""), detail)
        if owner.get("controller"):
            controllers.append((index, owner))
    if len(controllers) > 1:
        first, second = (owner for _, owner in controllers[:2])
        detail = (
            f'Only one reference can have Controller set to true. Found "true" in references for '
            f"{first['kind']}/{first['name']} and {second['kind']}/{second['name']}"
        )
        yield causes.invalid("metadata.ownerReferences", meta["ownerReferences"], detail)


def check_metadata_change(new: Object, old: Object) -> Iterator[Cause]:
    """Checks what may not change. The server has restored its own fields already."""
    if new.get("name") != old.get("name"):
        yield causes.immutable("metadata.name", new.get("name"))
    added = [name for name in new.get("finalizers") or () if name not in (old.get("finalizers") or ())]
    if old.get("deletionTimestamp") and added:
        shown = "{" + ", ".join(f'"{name}"' for name in sorted(added)) + "}"
        detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{shown}"
        yield causes.forbidden("metadata.finalizers", detail)
