"""The apply patch: reads a configuration, merges it into the object by the ownership of fields, and writes it."""

from edl.embedded.server import status
from edl.embedded.server.apply import last_applied, merge
from edl.embedded.server.apply.managed_fields import Manager
from edl.embedded.server.core import Core, decode, encode
from edl.embedded.server.kinds import strategy_of
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.storage.revisions import Entry
from edl.embedded.server.types import strict_decoding
from edl.embedded.server.verbs import body, event_conversion
from edl.embedded.server.verbs.call import Call, Object, Response
from edl.embedded.server.verbs.create import create_object
from edl.embedded.server.verbs.read import renderer
from edl.embedded.server.verbs.update import check_version, finish_update, restore


async def apply_object(core: Core, call: Call) -> Response:
    rendering = renderer(call)
    config = _parse_config(call)
    entry, created = apply_config(core, call, config)
    await core.store.committed()
    return Response(
        201 if created else 200, rendering.object(entry), rendering.form.content_type, warnings=call.warnings
    )


def _parse_config(call: Call) -> Object:
    if not call.query.get("fieldManager"):
        cause = status.Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise status.invalid("meta.k8s.io", "PatchOptions", "", [cause])
    config = body.parse_yaml(call, call.resource.kind)
    _check_config_kind(call, config)
    meta = config.get("metadata") or {}
    if not isinstance(meta, dict):
        raise status.bad_request("metadata is not an object")
    if "managedFields" in meta:
        raise status.bad_request("metadata.managedFields must be nil")
    what = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {_kind_text(config)}"
    merge.refuse_undeclared(call.resource.type, config, what)
    strict_decoding.normalize(call, config, lambda: call.document)
    if call.resource.custom is None:
        _drop_unset(config, call)
    config = event_conversion.incoming(call.resource, config)
    body.set_namespace_and_name(call, config.setdefault("metadata", {}))
    return config


def _kind_text(obj: Object) -> str:
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind', '')}"


def _check_config_kind(call: Call, config: Object) -> None:
    if (config.get("apiVersion"), config.get("kind")) != (call.resource.api_version, call.resource.kind):
        raise status.bad_request(f"invalid object type: {_kind_text(config)}")


def _drop_unset(config: Object, call: Call) -> None:
    """Normalizing adds empty structs and drops empty values; a configuration must name what its author named."""
    named = body.parse_yaml(call, call.resource.kind)
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
    resource, strategy = call.resource, strategy_of(call.resource)
    entry = core.store.latest(resource.storage, call.key)
    who = Manager(call.manager, "Apply", resource.api_version, call.subresource)
    force = call.query.flag("force")
    ignored = _not_applied(call, strategy, config)
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
        new = merge.apply(resource.type, live, config, manager=who, now=core.now(), force=force, ignored=ignored)
        new = _typed(call, new)
        return create_object(core, call, new, applied=True), True
    old = core.read(resource, entry)
    check_version(call, strategy, config["metadata"], old["metadata"], replaces=False)
    new = last_applied.apply(resource.type, old, config, manager=who, now=core.now(), force=force, ignored=ignored)
    if new is old:
        return entry, False
    fields = new["metadata"].get("managedFields")
    new = _typed(call, new)
    restore(call, strategy, new, old)
    new["metadata"]["managedFields"] = fields
    strategy.default(new)
    return finish_update(core, call, entry, new, old), False


def _typed(call: Call, obj: Object) -> Object:
    """A normalized copy: merging may have left empty containers behind."""
    obj = decode(encode({"kind": call.resource.kind, "apiVersion": call.resource.api_version, **obj}))
    strict_decoding.normalize(call, obj, bytes)
    return obj


def _not_applied(call: Call, strategy: Strategy, config: Object) -> tuple[str, ...]:
    if call.subresource == "status":
        return tuple(name for name in config if name not in ("status", "metadata", "kind", "apiVersion"))
    return ("status",) if strategy.has_status else ()
