"""delete and deletecollection: preconditions, grace periods, finalizers and what the garbage collector is asked to
do."""

from __future__ import annotations

import msgspec

from edl.embedded.server import body, selectors, status
from edl.embedded.server.call import Answer, Call, Object
from edl.embedded.server.core import Core, encode
from edl.embedded.server.read import renderer
from edl.embedded.server.store import Entry

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


class Preconditions(msgspec.Struct):
    uid: str | None = None
    resourceVersion: str | None = None  # noqa: N815 - the wire's own name


class DeleteOptions(msgspec.Struct):
    gracePeriodSeconds: int | None = None  # noqa: N815
    propagationPolicy: str | None = None  # noqa: N815
    orphanDependents: bool | None = None  # noqa: N815
    preconditions: Preconditions | None = None
    dryRun: list[str] | None = None  # noqa: N815


def parse_options(call: Call) -> DeleteOptions:
    if call.body:
        try:
            return msgspec.convert(body.parse(call), DeleteOptions)
        except msgspec.ValidationError as error:
            raise status.bad_request(f"DeleteOptions: {error}") from None
    query = call.query
    return DeleteOptions(
        gracePeriodSeconds=query.number("gracePeriodSeconds"),
        propagationPolicy=query.get("propagationPolicy") or None,
        orphanDependents=query.flag("orphanDependents") if "orphanDependents" in query else None,
    )


async def delete(core: Core, call: Call) -> Answer:
    rendering = renderer(call)
    options = parse_options(call)
    entry = core.store.latest(call.resource.storage, call.key)
    if entry is None:
        raise call.not_found()
    entry, gone = delete_entry(core, call, entry, options)
    await core.store.committed()
    if gone:
        uid = msgspec.json.decode(entry.body)["metadata"]["uid"]
        return Answer(200, encode(status.success(call.name, call.resource.group, call.resource.plural, uid)))
    return Answer(200, rendering.object(entry), rendering.form.content_type)


async def delete_collection(core: Core, call: Call) -> Answer:
    rendering = renderer(call, many=True)
    options = parse_options(call)
    selector = selectors.parse(call.resource, call.query.get("labelSelector"), call.query.get("fieldSelector"))
    deleted = []
    for entry in list(core.store.entries(call.resource.storage, call.namespace)):
        latest = core.store.latest(call.resource.storage, (entry.namespace, entry.name))
        if latest is not None and selector.matches(latest):
            deleted.append(delete_entry(core, call, latest, options)[0])
    await core.store.committed()
    return Answer(200, rendering.list(deleted, {"resourceVersion": str(core.store.rv)}), rendering.form.content_type)


def delete_entry(core: Core, call: Call, entry: Entry, options: DeleteOptions) -> tuple[Entry, bool]:
    """Stage the deletion, or the mark that it is wanted. The second value says whether the object is gone."""
    obj = core.read(call.resource, entry)
    _check_preconditions(call, obj, options)
    meta = obj["metadata"]
    dry = call.dry_run or bool(options.dryRun)
    _plan_finalizers(meta, options)
    if meta.get("finalizers"):
        if "deletionTimestamp" not in meta:
            meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = core.now(), 0
        elif obj == core.read(call.resource, entry):
            return entry, False
        return (core.preview(obj) if dry else core.put(call.resource, obj)), False
    return (core.preview(obj) if dry else core.remove(call.resource, obj)), True


def _plan_finalizers(meta: Object, options: DeleteOptions) -> None:
    policy = options.propagationPolicy or ("Orphan" if options.orphanDependents else "")
    finalizers = [name for name in meta.get("finalizers") or [] if not policy or name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        finalizers.append(ORPHAN)
    elif policy == "Foreground":
        finalizers.append(FOREGROUND)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _check_preconditions(call: Call, obj: Object, options: DeleteOptions) -> None:
    wanted, meta, resource = options.preconditions, obj["metadata"], call.resource
    if wanted is None:
        return
    if wanted.uid is not None and wanted.uid != meta["uid"]:
        why = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {meta['uid']}"
        raise status.conflict(resource.group, resource.plural, meta["name"], why)
    if wanted.resourceVersion is not None and wanted.resourceVersion != meta["resourceVersion"]:
        why = (
            f"Precondition failed: ResourceVersion in precondition: {wanted.resourceVersion}, ResourceVersion in "
            f"object meta: {meta['resourceVersion']}"
        )
        raise status.conflict(resource.group, resource.plural, meta["name"], why)
