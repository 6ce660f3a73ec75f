"""ResourceQuotas, counted in the transaction of the write itself, so that `status.used` is never behind."""

from collections.abc import Iterator

from edl.api.kubernetes import quantity
from edl.embedded.server import status
from edl.embedded.server.core import Core, decode
from edl.embedded.server.kinds.pod_defaults import containers
from edl.embedded.server.kinds.pods import qos_class
from edl.embedded.server.registry import Resource
from edl.embedded.server.verbs.call import Call, Object

Amounts = dict[str, int]
"""Of each name, in 10^-9 units."""

_STORAGE = "/resourcequotas"
_COUNTED = {
    "/configmaps": "configmaps",
    "/secrets": "secrets",
    "/services": "services",
    "/resourcequotas": "resourcequotas",
}
_COMPUTE = frozenset({"cpu", "memory", "ephemeral-storage"})


def usage(resource: Resource, obj: Object) -> Amounts:
    """The object's usage of each quota name that could count it."""
    amounts: Amounts = {f"count/{status.qualified(resource.group, resource.plural)}": quantity.NANO}
    if resource.storage in _COUNTED:
        amounts[_COUNTED[resource.storage]] = quantity.NANO
    if resource.storage == "/pods":
        return _pod_usage(obj)
    return amounts


def _pod_usage(pod: Object) -> Amounts:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return {"count/pods": quantity.NANO}
    amounts: Amounts = {"pods": quantity.NANO, "count/pods": quantity.NANO}
    for field in ("requests", "limits"):
        for name, amount in _largest(pod["spec"], field).items():
            amounts[f"{field}.{name}"] = amount
            if field == "requests" and name in _COMPUTE:
                amounts[name] = amount
    return amounts


def _largest(spec: Object, field: str) -> Amounts:
    """Containers run together, init containers one after another before them."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        for name, amount in (container["resources"].get(field) or {}).items():
            total[name] = total.get(name, 0) + quantity.nano(amount)
    for container in spec.get("initContainers") or ():
        for name, amount in (container["resources"].get(field) or {}).items():
            total[name] = max(total.get(name, 0), quantity.nano(amount))
    return total


def _quotas(core: Core, namespace: str) -> Iterator[tuple[str, Object]]:
    for entry in list(core.store.entries(_STORAGE, namespace)):
        latest = core.store.latest(_STORAGE, (namespace, entry.name))
        if latest is not None:
            yield entry.name, decode(latest.body)


def _in_scope(quota: Object, resource: Resource, obj: Object) -> bool:
    scopes = [(scope, "Exists", ()) for scope in quota["spec"].get("scopes") or ()]
    selector = quota["spec"].get("scopeSelector") or {}
    scopes += [
        (term["scopeName"], term.get("operator", "Exists"), tuple(term.get("values") or ()))
        for term in selector.get("matchExpressions") or ()
    ]
    if not scopes:
        return True
    return resource.storage == "/pods" and all(_scope_holds(scope, obj) for scope in scopes)


def _scope_holds(scope: tuple[str, str, tuple[str, ...]], pod: Object) -> bool:
    name, operator, values = scope
    spec = pod["spec"]
    match name:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            chosen = spec.get("priorityClassName", "")
            present = {"In": chosen in values, "NotIn": chosen not in values, "DoesNotExist": not chosen}
            return present.get(operator, bool(chosen))
        case _:
            return False


def check(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Refuses an object that would exceed a quota of its namespace, or that omits a resource that a quota counts."""
    if not call.namespace or not core.store.count(_STORAGE):
        return
    resource = call.resource
    for name, quota in _quotas(core, call.namespace):
        hard = {key: quantity.nano(amount) for key, amount in (quota["spec"].get("hard") or {}).items()}
        if not hard or not _in_scope(quota, resource, new):
            continue
        if resource.storage == "/pods":
            _check_specified(name, hard, new)
        delta = usage(resource, new)
        if old is not None:
            before = usage(resource, old)
            delta = {key: amount - before.get(key, 0) for key, amount in delta.items()}
        used = total(core, call.namespace, quota)
        over = sorted(key for key in hard if delta.get(key, 0) > 0 and used.get(key, 0) + delta[key] > hard[key])
        if over:
            raise _exceeded(call, new, name, over, delta, used, hard)


def _check_specified(name: str, hard: Amounts, pod: Object) -> None:
    missing: dict[str, list[str]] = {}
    for key in sorted(hard):
        field, _, resource = key.rpartition(".")
        if (field or "requests") in ("requests", "limits") and resource in _COMPUTE:
            for container in containers(pod["spec"]):
                if resource not in (container["resources"].get(field or "requests") or {}):
                    missing.setdefault(key, []).append(container["name"])
    if missing:
        texts = [f"{key} for: {','.join(names)}" for key, names in missing.items()]
        raise status.forbidden(
            "", "pods", pod["metadata"]["name"], f"failed quota: {name}: must specify {'; '.join(texts)}"
        )


def _exceeded(
    call: Call, obj: Object, name: str, over: list[str], delta: Amounts, used: Amounts, hard: Amounts
) -> status.ApiError:
    def listed(amounts: Amounts) -> str:
        return ",".join(f"{key}={_shown(key, amounts.get(key, 0))}" for key in over)

    why = f"exceeded quota: {name}, requested: {listed(delta)}, used: {listed(used)}, limited: {listed(hard)}"
    return status.forbidden(call.resource.group, call.resource.plural, obj["metadata"]["name"], why)


def total(core: Core, namespace: str, quota: Object) -> Amounts:
    """Usage in the namespace of the names that this quota limits, staged writes included."""
    hard = quota["spec"].get("hard") or {}
    result: Amounts = dict.fromkeys(hard, 0)
    for resource in core.registry:
        if resource.namespaced and _counts(resource, hard):
            for obj in _objects(core, resource, namespace):
                if _in_scope(quota, resource, obj):
                    for key, amount in usage(resource, obj).items():
                        if key in result:
                            result[key] += amount
    return result


def _counts(resource: Resource, hard: Object) -> bool:
    if resource.group == "events.k8s.io":
        return False
    if resource.storage == "/pods":
        return any(not key.startswith("count/") or key == "count/pods" for key in hard)
    names = {f"count/{status.qualified(resource.group, resource.plural)}", _COUNTED.get(resource.storage, "")}
    return any(key in names for key in hard)


def _objects(core: Core, resource: Resource, namespace: str) -> Iterator[Object]:
    staged = {(c.entry.namespace, c.entry.name): c for c in core.store.staged(resource.storage)}
    for entry in core.store.entries(resource.storage, namespace):
        if (entry.namespace, entry.name) not in staged:
            yield decode(entry.body)
    for change in staged.values():
        if not change.deleted and change.entry.namespace == namespace:
            yield decode(change.entry.body)


def recount(core: Core, call: Call, new: Object | None, old: Object | None) -> None:
    """Writes each quota's status when this write changed what it counts."""
    storage, namespace = call.resource.storage, call.namespace
    if not namespace:
        return
    if storage == _STORAGE:
        if new is not None and (old is None or new["spec"] != old["spec"]):
            _write_status(core, namespace, new["metadata"]["name"])
        return
    if core.store.count(_STORAGE) and _relevant(call.resource, new, old):
        for name, _ in list(_quotas(core, namespace)):
            _write_status(core, namespace, name)


def _relevant(resource: Resource, new: Object | None, old: Object | None) -> bool:
    if new is None or old is None:
        return True
    return usage(resource, new) != usage(resource, old)


def _write_status(core: Core, namespace: str, name: str) -> None:
    resource = core.registry.find("", "v1", "resourcequotas")
    assert resource is not None
    entry = core.store.latest(_STORAGE, (namespace, name))
    if entry is None:
        return
    quota = core.read(resource, entry)
    hard = quota["spec"].get("hard") or {}
    used = {key: _shown(key, amount) for key, amount in sorted(total(core, namespace, quota).items())}
    current = {"hard": hard, "used": used} if hard else {}
    if quota.get("status") != current:
        quota["status"] = current
        core.put(resource, quota)


def _shown(key: str, amount: int) -> str:
    """Bytes with binary suffixes, where that leaves an integer."""
    sizes = "memory" in key or "storage" in key
    return quantity.text(amount, binary=sizes and amount % (1024 * quantity.NANO) == 0)
