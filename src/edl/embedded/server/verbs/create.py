"""create, and what it shares with other writes: field ownership, and the refusal of invalid objects."""

from edl.embedded.server import admission, names, status
from edl.embedded.server.apply import managed_fields
from edl.embedded.server.apply.managed_fields import Manager
from edl.embedded.server.core import Core
from edl.embedded.server.kinds import strategy_of
from edl.embedded.server.kinds.config import fold_string_data
from edl.embedded.server.kinds.metadata import check_metadata
from edl.embedded.server.registry import Resource
from edl.embedded.server.storage.revisions import Entry
from edl.embedded.server.types.normalize import Findings, normalizer
from edl.embedded.server.verbs import body, event_conversion
from edl.embedded.server.verbs.call import Call, Object, Response
from edl.embedded.server.verbs.read import renderer

SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
"""Metadata that clients may send and never set."""


async def create(core: Core, call: Call) -> Response:
    rendering = renderer(call)
    obj = event_conversion.incoming(call.resource, body.parse_object(call))
    entry = create_object(core, call, obj)
    await core.store.committed()
    return Response(201, rendering.object(entry), rendering.form.content_type, warnings=call.warnings)


def create_object(core: Core, call: Call, obj: Object, *, applied: bool = False) -> Entry:
    """Admits, defaults, validates and stages a new object of the resource's type."""
    resource, strategy, meta = call.resource, strategy_of(call.resource), obj["metadata"]
    admission.check_namespace(core, call, meta.get("name") or "")
    if meta.get("resourceVersion") not in (None, "", "0"):
        raise status.ApiError(500, "", "resourceVersion should not be set on objects to be created")
    for field in SERVER_OWNED:
        if field != "generation":
            meta.pop(field, None)
    _name(core, call, meta)
    meta["uid"], meta["creationTimestamp"] = core.new_uid(), core.now()
    if strategy.has_status:
        _clear_status(resource, obj)
    if resource.storage == "/secrets":
        fold_string_data(obj)
    strategy.default(obj)
    if not applied:
        record_ownership(core, call, _empty(resource), obj)
    admission.mutate(core, call, obj, None)
    strategy.prepare_create(obj)
    if strategy.generation:
        meta["generation"] = 1
    refuse_invalid(call, obj, [*check_metadata(resource, meta), *strategy.validate(obj)])
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
        meta["name"] = names.generate(meta["generateName"], core.random)
        if core.store.latest(call.resource.storage, (call.namespace, meta["name"])) is None:
            return


def _clear_status(resource: Resource, obj: Object) -> None:
    obj.pop("status", None)
    if resource.custom is None:
        obj["status"] = dict(_empty(resource)["status"])


def _empty(resource: Resource) -> Object:
    """The object of this type in which nothing is set; a creation is compared with it."""
    if resource.custom is not None:
        return {"metadata": {}}
    empty: Object | None = resource.type.prepared.get("empty")
    if empty is None:
        empty = resource.type.prepared["empty"] = normalizer(resource.type)({}, Findings())
    return empty


def record_ownership(core: Core, call: Call, old: Object, new: Object, *, given: object = None) -> None:
    who = Manager(call.manager, "Update", call.resource.api_version, call.subresource)
    now = (
        "" if call.subresource == "scale" else core.now()
    )  # Kubernetes does not date what the scale subresource writes
    managed_fields.record(call.resource.type, old, new, manager=who, now=now, given=given)


def refuse_invalid(call: Call, obj: Object, found: list[status.Cause]) -> None:
    if found:
        raise status.invalid(call.resource.group, call.resource.kind, obj["metadata"].get("name", ""), found)
