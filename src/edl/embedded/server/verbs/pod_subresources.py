"""Subresources that act on a pod (binding, eviction, resize), and `finalize` of a namespace."""

import copy

from edl.embedded.server import causes, status
from edl.embedded.server.core import Core, encode
from edl.embedded.server.kinds.pod_validation import check_pod_spec
from edl.embedded.server.kinds.pods import qos_class
from edl.embedded.server.verbs import body, delete, update
from edl.embedded.server.verbs.call import Call, Object, Response

_MUTABLE = ("cpu", "memory")


def _created() -> Response:
    return Response(
        201, encode({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
    )


async def bind(core: Core, call: Call) -> Response:
    binding = body.parse_as(call, "core.Binding")
    pods = core.registry.find("", "v1", "pods")
    assert pods is not None
    name = call.name if call.subresource else binding["metadata"].get("name", "")
    node = binding["target"].get("name", "")
    kind = binding["target"].get("kind") or "Node"
    if kind != "Node":
        raise status.ApiError(500, "", str(causes.unsupported("target.kind", kind, ("Node", "<empty>"))))
    if not node:
        raise status.ApiError(500, "", "target.name: Required value")
    bound = Call(call.method, call.path, call.query, pods, call.namespace, name, "binding", user_agent=call.user_agent)
    update.edit(core, bound, lambda pod: _assign(core, binding, pod, node))
    await core.store.committed()
    return _created()


def _assign(core: Core, binding: Object, pod: Object, node: str) -> Object:
    meta, spec = pod["metadata"], pod["spec"]
    uid = binding["metadata"].get("uid")
    why = ""
    if uid and uid != meta["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}"
    elif meta.get("deletionTimestamp"):
        why = f"pod {meta['name']} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {meta["name"]} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {meta['name']} has non-empty .spec.schedulingGates"
    if why:
        raise status.conflict("", "pods/binding", meta["name"], why)
    spec["nodeName"] = node
    if binding["metadata"].get("annotations"):
        meta["annotations"] = {**meta.get("annotations", {}), **binding["metadata"]["annotations"]}
    set_condition(pod, {"type": "PodScheduled", "status": "True"}, core.now())
    return pod


def set_condition(pod: Object, condition: Object, now: str) -> None:
    conditions = pod["status"].setdefault("conditions", [])
    before = next((have for have in conditions if have["type"] == condition["type"]), None)
    changed = before is None or before["status"] != condition["status"]
    when = now if changed or before is None else before.get("lastTransitionTime")
    fresh = {**condition, "lastProbeTime": None, "lastTransitionTime": when}
    if before is None:
        conditions.append(fresh)
    else:
        conditions[conditions.index(before)] = fresh


async def evict(core: Core, call: Call) -> Response:
    """Deletes the pod. There are no disruption budgets here."""
    eviction = body.parse_as(call, "policy.Eviction")
    name = eviction["metadata"].get("name") or call.name
    if name != call.name:
        raise status.bad_request(f"name in URL does not match name in Eviction object: {call.name} != {name}")
    options = _options(eviction)
    entry = core.store.latest("/pods", call.key)
    if entry is None:
        raise call.not_found()
    if not call.dry_run and not options.dryRun:
        entry = update.edit(core, call, lambda pod: _disrupted(core, pod))
        delete.delete_entry(core, call, entry, options)
    await core.store.committed()
    return _created()


def _options(eviction: Object) -> delete.DeleteOptions:
    given = eviction.get("deleteOptions") or {}
    wanted = given.get("preconditions") or {}
    options = delete.DeleteOptions(
        gracePeriodSeconds=given.get("gracePeriodSeconds"),
        propagationPolicy=given.get("propagationPolicy"),
        dryRun=given.get("dryRun"),
        preconditions=delete.Preconditions(wanted.get("uid"), wanted.get("resourceVersion")) if wanted else None,
    )
    delete.check_options(options)
    return options


def _disrupted(core: Core, pod: Object) -> Object:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    set_condition(pod, condition, core.now())
    return pod


async def finalize(core: Core, call: Call) -> Response:
    """`namespaces/NAME/finalize`: the only way to change a namespace's finalizers; the last one lets it go."""
    wanted = body.parse_object(call)

    def change(namespace: Object) -> Object:
        version = wanted["metadata"].get("resourceVersion")
        if version and version != namespace["metadata"]["resourceVersion"]:
            raise status.modified("", "namespaces", call.name)
        namespace["spec"] = {key: value for key, value in wanted["spec"].items() if value}
        return namespace

    entry = update.edit(core, call, change)
    await core.store.committed()
    return Response(200, call.resource.render(entry.body))


async def resize(core: Core, call: Call) -> Response:
    if call.method == "PUT":
        wanted = body.parse_object(call)
        return await update.update(core, call, lambda present: _resized(call, wanted, present), replaces=True)
    change = update.patching(call)
    return await update.update(core, call, lambda present: _resized(call, change(copy.deepcopy(present)), present))


def _resized(call: Call, new: Object, old: Object) -> Object:
    """The pod with only its containers' resources changed; whatever else `new` changes is ignored."""
    result = copy.deepcopy(old)
    before = {container["name"]: container for container in _containers(result)}
    for container in _containers(new):
        if container["name"] in before:
            before[container["name"]]["resources"] = container["resources"]
    for container, was in zip(_containers(result), _containers(old), strict=True):
        for field in ("requests", "limits"):
            after, earlier = container["resources"].get(field) or {}, was["resources"].get(field) or {}
            if any(after.get(name) != earlier.get(name) for name in {*after, *earlier} - set(_MUTABLE)):
                _refuse(call, "only cpu and memory resources are mutable")
    if qos_class(result["spec"]) != qos_class(old["spec"]):
        cause = causes.invalid(
            "spec", qos_class(result["spec"]), "Pod QOS Class may not change as a result of resizing"
        )
        raise status.invalid("", "Pod", call.name, [cause])
    found = check_pod_spec(result["spec"], "spec")
    if found:
        raise status.invalid("", "Pod", call.name, found)
    return result


def _containers(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ())]


def _refuse(call: Call, why: str) -> None:
    raise status.invalid("", "Pod", call.name, [causes.forbidden("spec", why)])
