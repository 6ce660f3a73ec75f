"""create, replace and patch: one path for all writes of an object, from the client's body to a durable revision.

Between reading the present object (`store.latest`) and staging the new one there is no `await`: that is what makes
every write atomic.
"""

from __future__ import annotations

from collections.abc import Callable

from edl.embedded.server import body, conversion, names, status
from edl.embedded.server.call import Answer, Call, Object
from edl.embedded.server.core import Core
from edl.embedded.server.read import renderer
from edl.embedded.server.store import Entry

Transform = Callable[[Object], Object]
"""From the present object to the wanted one: a replacement, a patch, an apply."""


async def create(core: Core, call: Call) -> Answer:
    rendering = renderer(call)
    obj = conversion.incoming(call.resource, body.parse_object(call))
    meta = obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = names.generate(meta["generateName"])
    _check_create(call, obj)
    storage = call.resource.storage
    if core.store.latest(storage, (call.namespace, meta["name"])) is not None:
        raise status.already_exists(call.resource.group, call.resource.plural, meta["name"])
    meta["uid"], meta["creationTimestamp"] = core.new_uid(), core.now()
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(field, None)
    meta["generation"] = 1
    if call.dry_run:
        entry = core.preview(obj)
    else:
        entry = core.put(call.resource, obj)
        await core.store.committed()
    return Answer(201, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


def _check_create(call: Call, obj: Object) -> None:
    name = obj["metadata"].get("name") or ""
    if not name:
        cause = status.Cause("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
        raise status.invalid(call.resource.group, call.resource.kind, "", [cause])
    causes = names.check(call.resource.storage, name)
    if causes:
        raise status.invalid(call.resource.group, call.resource.kind, name, causes)


async def replace(core: Core, call: Call) -> Answer:
    wanted = conversion.incoming(call.resource, body.parse_object(call))
    return await update(core, call, lambda _present: wanted)


async def update(core: Core, call: Call, transform: Transform) -> Answer:
    rendering = renderer(call)
    entry = core.store.latest(call.resource.storage, call.key)
    if entry is None:
        raise call.not_found()
    old = core.read(call.resource, entry)
    new = transform(core.read(call.resource, entry))
    _check_update(call, new, old)
    entry = _write(core, call, entry, new, old)
    await core.store.committed()
    return Answer(200, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


def _check_update(call: Call, new: Object, old: Object) -> None:
    resource, meta, before = call.resource, new["metadata"], old["metadata"]
    version = meta.get("resourceVersion") or ""
    if version and version != before["resourceVersion"]:
        raise status.modified(resource.group, resource.plural, call.name)
    if meta.get("uid") and meta["uid"] != before["uid"]:
        why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before['uid']}"
        raise status.conflict(resource.group, resource.plural, call.name, why)
    for field in (
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ):
        if field in before:
            meta[field] = before[field]
        else:
            meta.pop(field, None)


def _write(core: Core, call: Call, entry: Entry, new: Object, old: Object) -> Entry:
    if call.subresource == "status":
        new = {**old, "status": new.get("status"), "metadata": {**old["metadata"]}}
    elif call.resource.subresource("status") is not None:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    if new == old:
        return entry
    if {k: v for k, v in new.items() if k not in ("metadata", "status")} != {
        k: v for k, v in old.items() if k not in ("metadata", "status")
    }:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    if call.dry_run:
        return core.preview(new)
    if (
        new["metadata"].get("deletionTimestamp")
        and not new["metadata"].get("finalizers")
        and not new["metadata"].get("deletionGracePeriodSeconds")
    ):
        return core.remove(call.resource, new)
    return core.put(call.resource, new)
