"""The apply patch: a configuration is read, merged into the object under its owners' rights, and written."""

from __future__ import annotations

from edl.embedded.server import apply, body, conversion, lastapplied, status, typed
from edl.embedded.server.call import Answer, Call, Object
from edl.embedded.server.core import Core, decode, encode
from edl.embedded.server.create import create_object
from edl.embedded.server.kinds import kind_of
from edl.embedded.server.kinds.base import Kind
from edl.embedded.server.managed import Manager
from edl.embedded.server.read import renderer
from edl.embedded.server.revisions import Entry
from edl.embedded.server.update import check_version, finish_update, restore


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
    check_version(call, kind, config["metadata"], old["metadata"], replaces=False)
    new = lastapplied.apply(resource.type, old, config, manager=who, now=core.now(), force=force, ignored=ignored)
    if new is old:
        return entry, False
    fields = new["metadata"].get("managedFields")
    new = _typed(call, new)
    restore(call, kind, new, old)
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
