"""Services and EndpointSlices."""

from collections.abc import Iterator

from edl.embedded.server import causes, names
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def _default_service(service: Object) -> None:
    spec = service["spec"]
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)


def _prepare_service(service: Object) -> None:
    service["status"] = {"loadBalancer": {}}


def _check_service(service: Object) -> Iterator[Cause]:
    spec = service["spec"]
    headless = spec.get("clusterIP") == "None"
    if spec["type"] not in _TYPES:
        yield causes.unsupported("spec.type", spec["type"], _TYPES)
    if spec["sessionAffinity"] not in ("ClientIP", "None"):
        yield causes.unsupported("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
    if not spec.get("ports") and not headless and spec["type"] != "ExternalName":
        yield causes.required("spec.ports")
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        yield causes.required("spec.externalName")
    seen_names: set[str] = set()
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        yield from _check_port(port, f"spec.ports[{index}]", many=len(spec["ports"]) > 1, seen=seen_names)
        pair = (port["protocol"], port.get("port", 0))
        if pair in seen:
            yield causes.duplicate(f"spec.ports[{index}]", {"port": pair[1], "protocol": pair[0], "targetPort": 0})
        seen.add(pair)


def _check_port(port: Object, at: str, *, many: bool, seen: set[str]) -> Iterator[Cause]:
    name = port.get("name", "")
    if not name:
        if many:
            yield causes.required(f"{at}.name")
    else:
        for problem in names.label_problems(name):
            yield causes.invalid(f"{at}.name", name, problem)
        if name in seen:
            yield causes.duplicate(f"{at}.name", name)
        seen.add(name)
    if not 1 <= port.get("port", 0) <= 65535:
        yield causes.invalid(f"{at}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")
    if port["protocol"] not in ("TCP", "UDP", "SCTP"):
        yield causes.unsupported(f"{at}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))
    target = port["targetPort"]
    if isinstance(target, int) and not 1 <= target <= 65535:
        yield causes.invalid(f"{at}.targetPort", target, "must be between 1 and 65535, inclusive")


def _validate_service(service: Object) -> list[Cause]:
    return list(_check_service(service))


def _update_service(new: Object, old: Object) -> None:
    """Keeps allocated addresses that the client leaves out."""
    if new["spec"]["type"] != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name not in new["spec"] and name in old["spec"]:
                new["spec"][name] = old["spec"][name]


def _validate_service_update(new: Object, old: Object) -> list[Cause]:
    found = _validate_service(new)
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if before and before != after and "ExternalName" not in (old["spec"]["type"], new["spec"]["type"]):
        found.insert(0, causes.immutable("spec.clusterIPs[0]", [after] if after else None))
    return found


def _default_slice(endpoints: Object) -> None:
    for port in endpoints.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _check_slice(endpoints: Object) -> list[Cause]:
    found = []
    kind = endpoints.get("addressType", "")
    if not kind:
        found.append(causes.required("addressType"))
    elif kind not in ("IPv4", "IPv6", "FQDN"):
        found.append(causes.unsupported("addressType", kind, ("FQDN", "IPv4", "IPv6")))
    for index, endpoint in enumerate(endpoints.get("endpoints") or ()):
        if not endpoint.get("addresses"):
            found.append(causes.required(f"endpoints[{index}].addresses", "must contain at least 1 address"))
    return found


def _check_slice_update(new: Object, old: Object) -> list[Cause]:
    found = _check_slice(new)
    if new.get("addressType") != old.get("addressType"):
        found.append(causes.immutable("addressType", new.get("addressType")))
    return found


SERVICE = Strategy(
    default=_default_service,
    prepare_create=_prepare_service,
    prepare_update=_update_service,
    validate=_validate_service,
    validate_update=_validate_service_update,
    has_status=True,
    returns_deleted=True,
)
ENDPOINT_SLICE = Strategy(
    default=_default_slice, validate=_check_slice, validate_update=_check_slice_update, generation=True
)
