"""Cluster IPs of Services. They are loopback addresses, so that a process on this machine can listen on them."""

import ipaddress

from edl.embedded.server import causes, status
from edl.embedded.server.core import Core, decode
from edl.embedded.server.verbs.call import Object

_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def allocate_cluster_ip(core: Core, service: Object, old: Object | None) -> None:
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        for name in _FIELDS:
            spec.pop(name, None)
        return
    if old is not None:
        for name in _FIELDS:
            if name not in spec and name in old["spec"]:
                spec[name] = old["spec"][name]
    address = spec.get("clusterIP") or (spec.get("clusterIPs") or [""])[0]
    if not address:
        address = _free_address(core)
    elif address != "None" and (old is None or old["spec"].get("clusterIP") != address):
        _check(core, service, address)
    spec["clusterIP"], spec["clusterIPs"] = address, [address]
    headless_anywhere = address == "None" and not spec.get("selector")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if headless_anywhere else ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if headless_anywhere else "SingleStack")


def _taken(core: Core) -> set[str]:
    services = [entry.body for entry in core.store.entries("/services")]
    services += [change.entry.body for change in core.store.staged("/services") if not change.deleted]
    return {decode(body)["spec"].get("clusterIP", "") for body in services}


def _free_address(core: Core) -> str:
    """The lowest free address: a machine has few Services, and low addresses are easy to read."""
    taken = _taken(core)
    for host in ipaddress.ip_network(core.service_network).hosts():
        if str(host) not in taken:
            return str(host)
    raise status.internal("failed to allocate a service IP: range is full")


def _check(core: Core, service: Object, address: str) -> None:
    problem = ""
    try:
        inside = ipaddress.ip_address(address) in ipaddress.ip_network(core.service_network)
    except ValueError:
        inside = False
    if not inside:
        problem = (
            f"failed to allocate IP {address}: the provided IP is not in the valid range. The range of valid IPs is "
            f"{core.service_network}"
        )
    elif address in _taken(core):
        problem = f"failed to allocate IP {address}: provided IP is already allocated"
    if problem:
        name = service["metadata"]["name"]
        raise status.invalid("", "Service", name, [causes.invalid("spec.clusterIPs", [address], problem)])
