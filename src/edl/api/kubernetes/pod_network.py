"""Pods with what those need who run them or route to them: ports, host names, addresses, how long they stay on a bad
node. Everything else is as in `edl.api.kubernetes.pod`, whose types these extend; whoever only counts and places pods
reads those, which are smaller.
"""

import msgspec

from edl.api.kubernetes import pod
from edl.api.kubernetes.meta import Wire


class ContainerPort(Wire, frozen=True):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class Container(pod.Container, frozen=True):
    ports: tuple[ContainerPort, ...] = ()


class Toleration(pod.Toleration, frozen=True):
    toleration_seconds: int | None = None


class PodSpec(pod.PodSpec, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    hostname: str = ""
    subdomain: str = ""


class PodStatus(pod.PodStatus, frozen=True):
    pod_ip: str = msgspec.field(default="", name="podIP")


class Pod(pod.Pod, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
