"""Text of a pod's /etc/hosts: names of services and of pods with a host name of their own. Pure.

A headless service's name leads to its ready endpoints, and `<hostname>.<service>` to one of them; any other service's
name leads to its address, where a forwarder listens (`service_proxy.py`). Names are as the cluster's DNS would resolve
them: `svc` in the same namespace, `svc.ns`, `svc.ns.svc` and `svc.ns.svc.cluster.local` from anywhere.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from edl.embedded.node.pod.types import Pod

DOMAIN = "cluster.local"


class ServiceNames(NamedTuple):
    """A service and the addresses that its names lead to. `address` is empty for a headless one."""

    namespace: str
    name: str
    address: str = ""
    endpoints: tuple[tuple[str, str], ...] = ()
    """Ready endpoints: address, and host name if it has one."""


def service_lines(services: Iterable[ServiceNames]) -> dict[str, tuple[list[str], list[str]]]:
    """Per namespace: the lines for those inside it, and those for everybody (which name the namespace)."""
    inside: dict[str, list[str]] = defaultdict(list)
    outside: dict[str, list[str]] = defaultdict(list)
    for service in services:
        for address, hostname in _records(service):
            short = f"{hostname}.{service.name}" if hostname else service.name
            full = f"{short}.{service.namespace}"
            everywhere = f"{full}.svc.{DOMAIN} {full}.svc {full}"
            inside[service.namespace].append(f"{address}\t{everywhere} {short}")
            outside[service.namespace].append(f"{address}\t{everywhere}")
    return {namespace: (inside[namespace], outside[namespace]) for namespace in inside}


def _records(service: ServiceNames) -> list[tuple[str, str]]:
    if service.address:
        return [(service.address, "")]
    return [*((address, "") for address, _ in service.endpoints), *(end for end in service.endpoints if end[1])]


def shared_text(lines: Mapping[str, tuple[list[str], list[str]]], namespace: str) -> str:
    """The part of /etc/hosts that all pods of a namespace share."""
    mine = lines[namespace][0] if namespace in lines else []
    others = [line for other, (_, outside) in sorted(lines.items()) if other != namespace for line in outside]
    return "\n".join([*mine, *others, ""])


def own_text(pod: Pod, address: str) -> str:
    """The part that is a pod's own: localhost, itself, its hostAliases."""
    names = pod.hostname
    if pod.spec.subdomain:
        full = f"{pod.hostname}.{pod.spec.subdomain}.{pod.metadata.namespace}.svc.{DOMAIN}"
        names = f"{full} {pod.hostname}"
    lines = [
        "# made by an EDL process node",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost",
        f"{address}\t{names}",
    ]
    lines += [f"{alias.ip}\t{' '.join(alias.hostnames)}" for alias in pod.spec.host_aliases]
    return "\n".join([*lines, ""])


def service_variables(services: Iterable[tuple[str, str, list[tuple[str, int]]]]) -> dict[str, str]:
    """Docker-style links for services with an address: (name, address, ports)."""
    env: dict[str, str] = {}
    for name, address, ports in services:
        prefix = name.upper().replace("-", "_")
        for index, (port_name, port) in enumerate(ports):
            if index == 0:
                env |= {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(port)}
                env[f"{prefix}_PORT"] = f"tcp://{address}:{port}"
            if port_name:
                env[f"{prefix}_SERVICE_PORT_{port_name.upper().replace('-', '_')}"] = str(port)
            link = f"{prefix}_PORT_{port}_TCP"
            env |= {link: f"tcp://{address}:{port}", f"{link}_PROTO": "tcp", f"{link}_PORT": str(port)}
            env[f"{link}_ADDR"] = address
    return env
