"""create, replace, patch and apply: one path for every write of an object, from the client's body to a durable
revision.

Between reading the present object (`store.latest`) and staging the new one there is no `await`: that is what makes
every write atomic.
"""

from __future__ import annotations

from collections.abc import Callable

from edl.embedded.server import (
    admission,
    apply,
    body,
    causes,
    conversion,
    lastapplied,
    managed,
    names,
    patch,
    status,
    strategic,
    typed,
)
from edl.embedded.server.call import Answer, Call, Object
from edl.embedded.server.core import Core, decode, encode
from edl.embedded.server.kinds import kind_of
from edl.embedded.server.kinds.base import Kind
from edl.embedded.server.kinds.config import fold_string_data
from edl.embedded.server.kinds.metadata import check_metadata, check_metadata_change
from edl.embedded.server.managed import Manager
from edl.embedded.server.read import renderer
from edl.embedded.server.registry import Resource
from edl.embedded.server.settle import Outcome, settler
from edl.embedded.server.store import Entry

Transform = Callable[[Object], Object]
"""From the present object to the wanted one."""

_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
_CREATED_BY_UPDATE = frozenset({"coordination.k8s.io/leases", "/events", "/services", "/limitranges"})
_STATUS_KEEPS_METADATA = frozenset({"apps/deployments"})


# -- create
# -------------------------------------------------------------------------------------------------------------


async def create(core: Core, call: Call) -> Answer:
    rendering = renderer(call)
    obj = conversion.incoming(call.resource, body.parse_object(call))
    entry = create_object(core, call, obj)
    await core.store.committed()
    return Answer(201, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


def create_object(core: Core, call: Call, obj: Object, *, applied: bool = False) -> Entry:
    """Admit, complete and stage a new object of the resource's type."""
    resource, kind, meta = call.resource, kind_of(call.resource), obj["metadata"]
    admission.check_namespace(core, call, meta.get("name") or "")
    if meta.get("resourceVersion") not in (None, "", "0"):
        raise status.ApiError(500, "", "resourceVersion should not be set on objects to be created")
    for field in _SERVER_OWNED:
        if field != "generation":
            meta.pop(field, None)
    _name(core, call, meta)
    meta["uid"], meta["creationTimestamp"] = core.new_uid(), core.now()
    if kind.has_status:
        _clear_status(resource, obj)
    if resource.storage == "/secrets":
        fold_string_data(obj)
    kind.default(obj)
    if not applied:
        _own(core, call, _empty(resource), obj)
    admission.mutate(core, call, obj, None)
    kind.prepare_create(obj)
    if kind.generation:
        meta["generation"] = 1
    refuse_invalid(call, obj, [*check_metadata(resource, meta), *kind.validate(obj)])
    if core.store.latest(resource.storage, (call.namespace, meta["name"])) is not None:
        raise status.already_exists(resource.group, resource.plural, meta["name"])
    admission.validate(core, call, obj, None)
    if call.dry_run:
        return core.preview(obj)
    entry = core.put(resource, obj)
    admission.after(core, call, obj, None)
    return entry


def _name(core: Core, call: Call, meta: Object) -> None:
    if meta.get("name") or not meta.get("generateName"):
        return
    for _ in range(8):
        meta["name"] = names.generate(meta["generateName"])
        if core.store.latest(call.resource.storage, (call.namespace, meta["name"])) is None:
            return


def _clear_status(resource: Resource, obj: Object) -> None:
    obj.pop("status", None)
    if resource.custom is None:
        obj["status"] = dict(_empty(resource)["status"])


def _empty(resource: Resource) -> Object:
    """The object of this type in which nothing is set: what a creation is compared with."""
    if resource.custom is not None:
        return {"metadata": {}}
    known = _EMPTY.get(resource.storage)
    if known is None:
        known = _EMPTY[resource.storage] = settler(resource.type)({}, Outcome())
    return known


_EMPTY: dict[str, Object] = {}


# -- update
# -------------------------------------------------------------------------------------------------------------


async def replace(core: Core, call: Call) -> Answer:
    wanted = conversion.incoming(call.resource, body.parse_object(call))
    if _creates(core, call):
        return await _create_by_update(core, call, wanted)
    if call.resource.storage == "/secrets":
        fold_string_data(wanted)
    return await update(core, call, lambda _present: wanted, replaces=True)


def _creates(core: Core, call: Call) -> bool:
    allowed = call.resource.storage in _CREATED_BY_UPDATE and not call.subresource
    return allowed and core.store.latest(call.resource.storage, call.key) is None


async def _create_by_update(core: Core, call: Call, wanted: Object) -> Answer:
    rendering = renderer(call)
    if wanted["metadata"].get("resourceVersion") not in (None, "", "0"):
        raise call.not_found()
    entry = create_object(core, call, wanted)
    await core.store.committed()
    return Answer(201, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


async def patch_object(core: Core, call: Call) -> Answer:
    media = call.content_type.partition(";")[0].strip()
    if media == patch.APPLY_PATCH:
        return await apply_object(core, call)
    return await update(core, call, patching(call))


def patching(call: Call) -> Transform:
    """The transformation that the request's patch describes."""
    media = call.content_type.partition(";")[0].strip()
    custom = call.resource.custom is not None
    if media == patch.JSON_PATCH:
        change: Transform = lambda present: patch.json_patch(present, call.body)  # noqa: E731
    elif media == patch.MERGE_PATCH:
        wanted = patch.decode_merge(call.body)
        change = lambda present: patch.merge(present, wanted)  # noqa: E731
    elif media == patch.STRATEGIC_PATCH and not custom:
        wanted = patch.decode_merge(call.body, prefix="")
        change = lambda present: strategic.merge(call.resource.type, present, wanted)  # noqa: E731
    else:
        if not custom:
            raise status.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        raise status.unsupported_media_type((patch.JSON_PATCH, patch.MERGE_PATCH, patch.APPLY_PATCH))
    return lambda present: _patched(call, change, present)


def _patched(call: Call, change: Transform, present: Object) -> Object:
    shown = conversion.shown(call.resource, present)
    new = change(shown)
    if not isinstance(new.get("metadata"), dict):
        raise status.bad_request("the patched object has no metadata")

    def document() -> bytes:
        return encode(change(shown))

    body.check_kind(call, new, patched=document)
    typed.settle(call, new, document, patched=shown)
    new = conversion.incoming(call.resource, new)
    if call.resource.storage == "/secrets":
        fold_string_data(new)
    body.settle_place(call, new["metadata"])
    return new


async def update(core: Core, call: Call, transform: Transform, *, replaces: bool = False) -> Answer:
    rendering = renderer(call)
    entry = update_object(core, call, transform, replaces=replaces)
    await core.store.committed()
    return Answer(200, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


def update_object(core: Core, call: Call, transform: Transform, *, replaces: bool = False) -> Entry:
    entry = core.store.latest(call.resource.storage, call.key)
    if entry is None:
        raise call.not_found()
    old = core.read(call.resource, entry)
    new = transform(core.read(call.resource, entry))
    kind = kind_of(call.resource)
    _check_version(call, kind, new["metadata"], old["metadata"], replaces)
    given = new["metadata"].get("managedFields") if not call.subresource else None
    _restore(call, kind, new, old)
    kind.default(new)
    _own(core, call, old, new, given=given if given != old["metadata"].get("managedFields") else None)
    return finish_update(core, call, entry, new, old)


def edit(core: Core, call: Call, change: Transform) -> Entry:
    """An update of the server's own (binding, eviction, finalizing): no ownership, no rules but the caller's."""
    entry = core.store.latest(call.resource.storage, call.key)
    if entry is None:
        raise call.not_found()
    old = core.read(call.resource, entry)
    new = change(core.read(call.resource, entry))
    if new == old:
        return entry
    if call.dry_run:
        return core.preview(new)
    finished = _is_finished(new["metadata"]) and not (new.get("spec") or {}).get("finalizers")
    entry = core.remove(call.resource, new) if finished else core.put(call.resource, new)
    admission.after(core, call, None if finished else new, old)
    return entry


def finish_update(core: Core, call: Call, entry: Entry, new: Object, old: Object) -> Entry:
    """The part of an update that apply shares: admission, rules, generation, staging."""
    kind = kind_of(call.resource)
    admission.mutate(core, call, new, old)
    if not call.subresource:
        kind.prepare_update(new, old)
    if kind.generation and _spec(new) != _spec(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    found = [*check_metadata(call.resource, new["metadata"]), *check_metadata_change(new["metadata"], old["metadata"])]
    found += _validate_change(call, kind, new, old)
    refuse_invalid(call, new, found)
    admission.validate(core, call, new, old)
    if new == old:
        return entry
    if call.dry_run:
        return core.preview(new)
    if _is_finished(new["metadata"]) and not (call.resource.storage == "/namespaces" and new["spec"].get("finalizers")):
        entry = core.remove(call.resource, new)
        admission.after(core, call, None, old)
        return entry
    entry = core.put(call.resource, new)
    admission.after(core, call, new, old)
    return entry


def _validate_change(call: Call, kind: Kind, new: Object, old: Object) -> list[status.Cause]:
    if call.subresource == "status":
        return kind.validate_status(new)
    return [] if call.subresource == "resize" else kind.validate_update(new, old)


def _is_finished(meta: Object) -> bool:
    """Deletion was asked for and nothing holds the object any more."""
    return (
        bool(meta.get("deletionTimestamp"))
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )


def _check_version(call: Call, kind: Kind, meta: Object, before: Object, replaces: bool) -> None:
    resource = call.resource
    version = meta.get("resourceVersion") or ""
    if not version and replaces and not kind.unconditional:
        cause = status.Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise status.invalid(resource.group, resource.plural, call.name, [cause])
    if meta.get("uid") and meta["uid"] != before["uid"] and not replaces:
        raise status.invalid(resource.group, resource.kind, call.name, [causes.immutable("metadata.uid", meta["uid"])])
    if meta.get("uid") and meta["uid"] != before["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
        raise status.conflict(resource.group, resource.plural, call.name, why)
    if version and version != before["resourceVersion"]:
        raise status.modified(resource.group, resource.plural, call.name)


def _restore(call: Call, kind: Kind, new: Object, old: Object) -> None:
    """Undo what this endpoint may not change: the server's own metadata, status or all but status."""
    meta, before = new["metadata"], old["metadata"]
    if call.subresource == "status":
        keep_all = call.resource.custom is not None or call.resource.storage in _STATUS_KEEPS_METADATA
        for name in [name for name in new if name not in ("metadata", "status", "kind", "apiVersion")]:
            del new[name]
        new.update({name: value for name, value in old.items() if name not in ("metadata", "status")})
        if keep_all:
            meta = new["metadata"] = {**before}
    elif kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    for name in _SERVER_OWNED:
        if name in before:
            meta[name] = before[name]
        else:
            meta.pop(name, None)
    if "managedFields" in before:
        meta["managedFields"] = before["managedFields"]
    else:
        meta.pop("managedFields", None)


def _spec(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _own(core: Core, call: Call, old: Object, new: Object, *, given: object = None) -> None:
    who = Manager(call.manager, "Update", call.resource.api_version, call.subresource)
    now = (
        "" if call.subresource == "scale" else core.now()
    )  # Kubernetes does not date what the scale subresource writes
    managed.record(call.resource.type, old, new, manager=who, now=now, given=given)


def refuse_invalid(call: Call, obj: Object, found: list[status.Cause]) -> None:
    if found:
        raise status.invalid(call.resource.group, call.resource.kind, obj["metadata"].get("name", ""), found)


# -- server-side apply
# --------------------------------------------------------------------------------------------------


async def apply_object(core: Core, call: Call) -> Answer:
    rendering = renderer(call)
    config = _parse_config(call)
    entry, created = apply_config(core, call, config)
    await core.store.committed()
    return Answer(201 if created else 200, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


def _parse_config(call: Call) -> Object:
    if not call.query.get("fieldManager"):
        cause = status.Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise status.invalid("meta.k8s.io", "PatchOptions", "", [cause])
    config = body.parse_yaml(call.body, call.resource.kind)
    _check_config_kind(call, config)
    meta = config.get("metadata") or {}
    if not isinstance(meta, dict):
        raise status.bad_request("metadata is not an object")
    if "managedFields" in meta:
        raise status.bad_request("metadata.managedFields must be nil")
    what = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {_kind_text(config)}"
    apply.refuse_undeclared(call.resource.type, config, what)
    typed.settle(call, config, lambda: call.body)
    if call.resource.custom is None:
        _drop_unset(config, call)
    config = conversion.incoming(call.resource, config)
    body.settle_place(call, config.setdefault("metadata", {}))
    return config


def _kind_text(obj: Object) -> str:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind', '')}"


def _check_config_kind(call: Call, config: Object) -> None:
    if (config.get("apiVersion"), config.get("kind")) != (call.resource.api_version, call.resource.kind):
        raise status.bad_request(f"invalid object type: {_kind_text(config)}")


def _drop_unset(config: Object, call: Call) -> None:
    """Settling adds empty structs and drops empty values; a configuration must name exactly what its author named."""
    named = body.parse_yaml(call.body, call.resource.kind)
    _intersect(config, named)


def _intersect(value: object, named: object) -> None:
    if isinstance(value, dict) and isinstance(named, dict):
        for key in [key for key in value if key not in named]:
            del value[key]
        value.update({key: item for key, item in named.items() if key not in value and item in ({}, [], "")})
        for key, item in value.items():
            _intersect(item, named[key])
    elif isinstance(value, list) and isinstance(named, list):
        for item, theirs in zip(value, named, strict=False):
            _intersect(item, theirs)


def apply_config(core: Core, call: Call, config: Object) -> tuple[Entry, bool]:
    resource, kind = call.resource, kind_of(call.resource)
    entry = core.store.latest(resource.storage, call.key)
    who = Manager(call.manager, "Apply", resource.api_version, call.subresource)
    force = call.query.flag("force")
    ignored = _not_applied(call, kind, config)
    if entry is None:
        if call.subresource:
            raise call.not_found()
        config["metadata"].pop("resourceVersion", None)
        if config["metadata"].get("uid"):
            why = (
                f"uid mismatch: the provided object specified uid {config['metadata']['uid']}, and no existing "
                "object was found"
            )
            raise status.conflict(resource.group, resource.plural, call.name, why)
        live: Object = {"metadata": {"name": call.name}}
        new = apply.apply(resource.type, live, config, manager=who, now=core.now(), force=force, ignored=ignored)
        new = _typed(call, new)
        return create_object(core, call, new, applied=True), True
    old = core.read(resource, entry)
    _check_version(call, kind, config["metadata"], old["metadata"], replaces=False)
    new = lastapplied.apply(resource.type, old, config, manager=who, now=core.now(), force=force, ignored=ignored)
    if new is old:
        return entry, False
    fields = new["metadata"].get("managedFields")
    new = _typed(call, new)
    _restore(call, kind, new, old)
    new["metadata"]["managedFields"] = fields
    kind.default(new)
    return finish_update(core, call, entry, new, old), False


def _typed(call: Call, obj: Object) -> Object:
    """A copy in the form of the resource's type: merging may have left empty containers behind."""
    obj = decode(encode({"kind": call.resource.kind, "apiVersion": call.resource.api_version, **obj}))
    typed.settle(call, obj, bytes)
    return obj


def _not_applied(call: Call, kind: Kind, config: Object) -> tuple[str, ...]:
    if call.subresource == "status":
        return tuple(name for name in config if name not in ("status", "metadata", "kind", "apiVersion"))
    return ("status",) if kind.has_status else ()
