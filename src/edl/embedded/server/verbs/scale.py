"""The `scale` subresource: reads and writes the field that holds the number of replicas."""

from typing import Any

from edl.embedded.server import causes, status
from edl.embedded.server.core import Core, encode
from edl.embedded.server.kinds.selectors import render
from edl.embedded.server.storage.revisions import Entry
from edl.embedded.server.verbs import body, patch, update
from edl.embedded.server.verbs.call import Call, Object, Response

_SPEC, _STATUS = ".spec.replicas", ".status.replicas"


def _paths(call: Call) -> tuple[str, str, str]:
    custom = call.resource.custom
    if custom is None:
        return _SPEC, _STATUS, ""
    return (
        custom.scale["specReplicasPath"],
        custom.scale["statusReplicasPath"],
        custom.scale.get("labelSelectorPath", ""),
    )


def _get(obj: Any, path: str) -> Any:
    for name in path.strip(".").split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def _set(obj: Object, path: str, value: int) -> None:
    *parents, last = path.strip(".").split(".")
    for name in parents:
        obj = obj.setdefault(name, {})
    obj[last] = value


def scale_of(call: Call, obj: Object) -> Object:
    spec_path, status_path, selector_path = _paths(call)
    meta = {
        name: obj["metadata"][name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in obj["metadata"]
    }
    size = _get(obj, spec_path)
    current: Object = {"replicas": _get(obj, status_path) or 0}
    if call.resource.custom is None:
        selector = render(obj["spec"].get("selector") or {})
    else:
        selector = _get(obj, selector_path) or "" if selector_path else ""
    if selector:
        current["selector"] = selector
    spec = {"replicas": size} if size else {}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec, "status": current}


def get(core: Core, call: Call) -> Response:
    entry = core.store.get(call.resource.storage, call.key)
    if entry is None:
        raise call.not_found()
    return Response(200, encode(scale_of(call, core.read(call.resource, entry))))


async def change(core: Core, call: Call) -> Response:
    """Replaces or patches the Scale, which writes the replicas into the object under the same preconditions."""
    entry = _change(core, call)
    await core.store.committed()
    return Response(200, encode(scale_of(call, core.read(call.resource, entry))), warnings=call.warnings)


def _change(core: Core, call: Call) -> Entry:
    def transform(present: Object) -> Object:
        scale = _wanted(call, scale_of(call, present))
        size = scale.get("spec", {}).get("replicas", 0)
        if size < 0 and call.resource.custom is None:
            cause = causes.invalid("spec.replicas", size, "must be greater than or equal to 0")
            raise status.invalid("autoscaling", "Scale", call.name, [cause])
        _set(present, _paths(call)[0], size)
        meta = scale.get("metadata") or {}
        if meta.get("uid"):
            present["metadata"]["uid"] = meta["uid"]
        present["metadata"]["resourceVersion"] = meta.get("resourceVersion", "")
        return present

    return update.update_object(core, call, transform)


def _wanted(call: Call, present: Object) -> Object:
    if call.method == "PUT":
        return body.parse_as(call, "autoscaling.Scale")
    call.body, call.content_type = encode(_patched(call, present)), "application/json"
    return body.parse_as(call, "autoscaling.Scale")


def _patched(call: Call, present: Object) -> Object:
    media = call.content_type.partition(";")[0].strip()
    if media == patch.JSON_PATCH:
        return patch.json_patch(present, call.body)
    if media in (patch.MERGE_PATCH, patch.STRATEGIC_PATCH):
        return dict(patch.merge(present, patch.decode_merge(call.body)))
    if media == patch.APPLY_PATCH:
        return dict(patch.merge(present, body.parse_yaml(call, "Scale")))
    raise status.unsupported_media_type((patch.JSON_PATCH, patch.MERGE_PATCH, patch.STRATEGIC_PATCH, patch.APPLY_PATCH))
