"""delete and deletecollection: preconditions, grace periods, finalizers and propagation policies."""

import msgspec

from edl.api.kubernetes import timestamp
from edl.embedded.server import admission, selectors, status
from edl.embedded.server.core import Core, encode
from edl.embedded.server.kinds import strategy_of
from edl.embedded.server.storage.revisions import Entry
from edl.embedded.server.types.model import builtin_types
from edl.embedded.server.verbs import body
from edl.embedded.server.verbs.call import Call, Object, Response
from edl.embedded.server.verbs.read import renderer

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_PROTECTED = ("default", "kube-system", "kube-public")
_POLICIES = ("Foreground", "Background", "Orphan")


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
    query = call.query
    options = DeleteOptions(
        gracePeriodSeconds=query.number("gracePeriodSeconds"),
        propagationPolicy=query.get("propagationPolicy") or None,
        orphanDependents=query.flag("orphanDependents") if "orphanDependents" in query else None,
    )
    if call.body:
        try:
            given = body.parse(call, builtin_types()["meta.DeleteOptions"])
            if given.get("kind", "DeleteOptions") != "DeleteOptions":
                raise status.bad_request("decoded object cannot be converted to DeleteOptions")
            options = msgspec.convert(given, DeleteOptions)
        except msgspec.ValidationError as error:
            raise status.bad_request(f"DeleteOptions: {error}") from None
    check_options(options)
    return options


def check_options(options: DeleteOptions) -> None:
    cause = None
    if options.propagationPolicy and options.orphanDependents is not None:
        text = (
            f'Invalid value: "{options.propagationPolicy}": orphanDependents and deletionPropagation cannot be both set'
        )
        cause = status.Cause("FieldValueInvalid", text, "propagationPolicy")
    elif options.propagationPolicy and options.propagationPolicy not in _POLICIES:
        listed = ", ".join(f'"{policy}"' for policy in (*_POLICIES, "nil"))
        text = f'Unsupported value: "{options.propagationPolicy}": supported values: {listed}'
        cause = status.Cause("FieldValueNotSupported", text, "propagationPolicy")
    if cause is not None:
        raise status.invalid("meta.k8s.io", "DeleteOptions", "", [cause])


async def delete(core: Core, call: Call) -> Response:
    rendering = renderer(call)
    options = parse_options(call)
    entry = core.store.latest(call.resource.storage, call.key)
    if entry is None:
        raise call.not_found()
    entry, gone = delete_entry(core, call, entry, options)
    await core.store.committed()
    if gone and not strategy_of(call.resource).returns_deleted:
        uid = msgspec.json.decode(entry.body)["metadata"]["uid"]
        return Response(200, encode(status.success(call.name, call.resource.group, call.resource.plural, uid)))
    return Response(200, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


async def delete_collection(core: Core, call: Call) -> Response:
    rendering = renderer(call, many=True)
    options = parse_options(call)
    selector = selectors.parse(call.resource, call.query.get("labelSelector"), call.query.get("fieldSelector"))
    deleted = []
    for entry in list(core.store.entries(call.resource.storage, call.namespace)):
        latest = core.store.latest(call.resource.storage, (entry.namespace, entry.name))
        if latest is not None and selector.matches(latest):
            deleted.append(delete_entry(core, call, latest, options)[0])
    await core.store.committed()
    body_ = rendering.list(deleted, {"resourceVersion": str(core.store.rv)})
    return Response(200, body_, rendering.form.content_type, warnings=call.warnings)


def delete_entry(core: Core, call: Call, entry: Entry, options: DeleteOptions) -> tuple[Entry, bool]:
    """Stages the deletion, or the deletionTimestamp. The second value is true when the object is gone."""
    old = core.read(call.resource, entry)
    obj = core.read(call.resource, entry)
    meta = obj["metadata"]
    _check_preconditions(call, meta, options)
    _propagation_finalizers(meta, options)
    if call.resource.storage == "/namespaces":
        _terminate_namespace(obj)
    grace = _grace(call, obj, options)
    if grace or _is_held(call, obj, old):
        _mark(core, meta, grace or 0)
        if call.resource.storage == "/namespaces":
            meta.pop("deletionGracePeriodSeconds", None)
        if obj == old:
            return entry, False
        return (core.preview(obj) if _dry(call, options) else core.put(call.resource, obj)), False
    if grace is not None:
        _mark(core, meta, 0)
    if _dry(call, options):
        return core.preview(obj), True
    entry = core.remove(call.resource, obj)
    admission.after(core, call, None, old)
    return entry, True


def _dry(call: Call, options: DeleteOptions) -> bool:
    return call.dry_run or bool(options.dryRun)


def _mark(core: Core, meta: Object, grace: int) -> None:
    """Sets the deletionTimestamp or brings it forward; it is never put off."""
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = core.now(ahead=grace), grace
        if meta.get("generation"):
            meta["generation"] += 1
    elif grace < meta.get("deletionGracePeriodSeconds", 0):
        moment = timestamp.seconds(meta["deletionTimestamp"]) + grace - meta["deletionGracePeriodSeconds"]
        meta["deletionTimestamp"] = timestamp.text(moment)
        meta["deletionGracePeriodSeconds"] = grace


def _grace(call: Call, obj: Object, options: DeleteOptions) -> int | None:
    """A pod's grace period in seconds; None for other kinds, which are deleted at once. A pod that never ran needs
    none.
    """
    if call.resource.storage != "/pods":
        return None
    spec, meta = obj["spec"], obj["metadata"]
    if not spec.get("nodeName") or obj["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    wanted = options.gracePeriodSeconds
    if wanted is None:
        wanted = meta.get("deletionGracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30))
    wanted = 1 if wanted < 0 else wanted
    return min(int(wanted), int(meta.get("deletionGracePeriodSeconds", wanted)))


def _terminate_namespace(namespace: Object) -> None:
    name = namespace["metadata"]["name"]
    if name in _PROTECTED:
        raise status.forbidden("", "namespaces", name, "this namespace may not be deleted")
    namespace["status"]["phase"] = "Terminating"


def _is_held(call: Call, obj: Object, old: Object) -> bool:
    """A namespace is only marked first, and stays until the finalizers of its spec are gone."""
    if obj["metadata"].get("finalizers"):
        return True
    if call.resource.storage != "/namespaces":
        return False
    return bool(obj["spec"].get("finalizers")) or not old["metadata"].get("deletionTimestamp")


def _propagation_finalizers(meta: Object, options: DeleteOptions) -> None:
    policy = options.propagationPolicy or ""
    if options.orphanDependents is not None:
        policy = "Orphan" if options.orphanDependents else "Background"
    finalizers = [name for name in meta.get("finalizers") or [] if not policy or name not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        finalizers.append(ORPHAN)
    elif policy == "Foreground":
        finalizers.append(FOREGROUND)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)


def _check_preconditions(call: Call, meta: Object, options: DeleteOptions) -> None:
    wanted, resource = options.preconditions, call.resource
    if wanted is None:
        return
    why = ""
    if wanted.uid is not None and wanted.uid != meta["uid"]:
        pair = f"({wanted.uid}) does not match the UID in record ({meta['uid']})"
        why = f"the UID in the precondition {pair}. The object might have been deleted and then recreated"
    elif wanted.resourceVersion is not None and wanted.resourceVersion != meta["resourceVersion"]:
        pair = f"({wanted.resourceVersion}) does not match the ResourceVersion in record ({meta['resourceVersion']})"
        why = f"the ResourceVersion in the precondition {pair}. The object might have been modified"
    if why:
        raise status.conflict(resource.group, resource.kind, meta["name"], why)
