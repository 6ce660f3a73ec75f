"""replace and patch: from the present object to the wanted one, with its preconditions and immutable fields.

Between reading the present object (`store.latest`) and staging the new one there is no `await`: that makes every write
atomic.
"""

from collections.abc import Callable

from edl.embedded.server import admission, causes, status
from edl.embedded.server.core import Core, encode
from edl.embedded.server.kinds import strategy_of
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.kinds.config import fold_string_data
from edl.embedded.server.kinds.metadata import check_metadata, check_metadata_change
from edl.embedded.server.storage.revisions import Entry
from edl.embedded.server.types import strict_decoding
from edl.embedded.server.verbs import body, event_conversion, patch, strategic_merge
from edl.embedded.server.verbs.call import Call, Object, Response
from edl.embedded.server.verbs.create import SERVER_OWNED, create_object, record_ownership, refuse_invalid
from edl.embedded.server.verbs.read import renderer

Transform = Callable[[Object], Object]
"""From the present object to the wanted one."""

_CREATED_BY_UPDATE = frozenset({"coordination.k8s.io/leases", "/events", "/services", "/limitranges"})
_STATUS_KEEPS_METADATA = frozenset({"apps/deployments"})


async def replace(core: Core, call: Call) -> Response:
    wanted = event_conversion.incoming(call.resource, body.parse_object(call))
    if _creates(core, call):
        return await _create_by_update(core, call, wanted)
    if call.resource.storage == "/secrets":
        fold_string_data(wanted)
    return await update(core, call, lambda _present: wanted, replaces=True)


def _creates(core: Core, call: Call) -> bool:
    allowed = call.resource.storage in _CREATED_BY_UPDATE and not call.subresource
    return allowed and core.store.latest(call.resource.storage, call.key) is None


async def _create_by_update(core: Core, call: Call, wanted: Object) -> Response:
    rendering = renderer(call)
    if wanted["metadata"].get("resourceVersion") not in (None, "", "0"):
        raise call.not_found()
    entry = create_object(core, call, wanted)
    await core.store.committed()
    return Response(201, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


async def patch_object(core: Core, call: Call) -> Response:
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
        change = lambda present: strategic_merge.merge(call.resource.type, present, wanted)  # noqa: E731
    else:
        if not custom:
            raise status.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        raise status.unsupported_media_type((patch.JSON_PATCH, patch.MERGE_PATCH, patch.APPLY_PATCH))
    return lambda present: _patched(call, change, present)


def _patched(call: Call, change: Transform, present: Object) -> Object:
    shown = event_conversion.shown(call.resource, present)
    new = change(shown)
    if not isinstance(new.get("metadata"), dict):
        raise status.bad_request("the patched object has no metadata")

    def document() -> bytes:
        return encode(change(shown))

    body.check_kind(call, new, patched=document)
    strict_decoding.normalize(call, new, document, patched=shown)
    new = event_conversion.incoming(call.resource, new)
    if call.resource.storage == "/secrets":
        fold_string_data(new)
    body.set_namespace_and_name(call, new["metadata"])
    return new


async def update(core: Core, call: Call, transform: Transform, *, replaces: bool = False) -> Response:
    rendering = renderer(call)
    entry = update_object(core, call, transform, replaces=replaces)
    await core.store.committed()
    return Response(200, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


def update_object(core: Core, call: Call, transform: Transform, *, replaces: bool = False) -> Entry:
    entry = core.store.latest(call.resource.storage, call.key)
    if entry is None:
        raise call.not_found()
    old = core.read(call.resource, entry)
    new = transform(core.read(call.resource, entry))
    strategy = strategy_of(call.resource)
    check_version(call, strategy, new["metadata"], old["metadata"], replaces)
    given = new["metadata"].get("managedFields") if not call.subresource else None
    restore(call, strategy, new, old)
    strategy.default(new)
    record_ownership(core, call, old, new, given=given if given != old["metadata"].get("managedFields") else None)
    return finish_update(core, call, entry, new, old)


def edit(core: Core, call: Call, change: Transform) -> Entry:
    """An update of the server itself (binding, eviction, finalizing): without field ownership and validation but the
    caller's.
    """
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
    """The part of an update that apply shares: admission, validation, generation, staging."""
    strategy = strategy_of(call.resource)
    admission.mutate(core, call, new, old)
    if not call.subresource:
        strategy.prepare_update(new, old)
    if strategy.generation and _spec(new) != _spec(old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    found = [*check_metadata(call.resource, new["metadata"]), *check_metadata_change(new["metadata"], old["metadata"])]
    found += _validate_change(call, strategy, new, old)
    refuse_invalid(call, new, found)
    admission.validate(core, call, new, old)
    if _undated(new) == _undated(old):
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


def _undated(obj: Object) -> Object:
    """Without the times at which managers wrote: where only those changed, nothing did. An apply is dated as soon as
    it changes something, and defaults may bring back what it took away: `fieldRef` is replaced whole, and its
    `apiVersion` is a default."""
    entries = obj["metadata"].get("managedFields") or []
    undated = [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": undated}}


def _validate_change(call: Call, strategy: Strategy, new: Object, old: Object) -> list[status.Cause]:
    if call.subresource == "status":
        return strategy.validate_status(new)
    return [] if call.subresource == "resize" else strategy.validate_update(new, old)


def _is_finished(meta: Object) -> bool:
    """Deletion was requested and no finalizer holds the object."""
    return (
        bool(meta.get("deletionTimestamp"))
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )


def check_version(call: Call, strategy: Strategy, meta: Object, before: Object, replaces: bool) -> None:
    resource = call.resource
    version = meta.get("resourceVersion") or ""
    if not version and replaces and not strategy.unconditional:
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


def restore(call: Call, strategy: Strategy, new: Object, old: Object) -> None:
    """Restores what this endpoint may not change: the server's own metadata, and status or all but status."""
    meta, before = new["metadata"], old["metadata"]
    if call.subresource == "status":
        keep_all = call.resource.custom is not None or call.resource.storage in _STATUS_KEEPS_METADATA
        for name in [name for name in new if name not in ("metadata", "status", "kind", "apiVersion")]:
            del new[name]
        new.update({name: value for name, value in old.items() if name not in ("metadata", "status")})
        if keep_all:
            meta = new["metadata"] = {**before}
    elif strategy.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    for name in SERVER_OWNED:
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
