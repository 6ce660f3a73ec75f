"""The downward API: fields of the pod, and resources of its containers, as text."""

import re

from edl.api.kubernetes import quantity
from edl.embedded.node.pod.inputs import ConfigurationError, PodInputs
from edl.embedded.node.pod.types import Container, Pod, ResourceReference

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def field_text(pod: Pod, inputs: PodInputs, path: str) -> str:
    """The value of a fieldRef."""
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        values = pod.metadata.labels if keyed[1] == "labels" else pod.metadata.annotations
        return values.get(keyed[2], "")
    known = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": inputs.host_ip,
        "status.hostIPs": inputs.host_ip,
        "status.podIP": inputs.pod_ip,
        "status.podIPs": inputs.pod_ip,
    }
    if path in known:
        return known[path]
    if path in ("metadata.labels", "metadata.annotations"):
        values = pod.metadata.labels if path.endswith("labels") else pod.metadata.annotations
        return "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(values.items()))
    raise ConfigurationError(f"fieldPath {path!r} is not supported")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_text(pod: Pod, inputs: PodInputs, container: Container, reference: ResourceReference) -> str:
    """The value of a resourceFieldRef: a limit that is not set is what the node can give."""
    subject = pod.container(reference.container_name) if reference.container_name else container
    if subject is None:
        raise ConfigurationError(f"container {reference.container_name} not found")
    side, _, name = reference.resource.partition(".")
    if side not in ("requests", "limits") or not name:
        raise ConfigurationError(f"unsupported container resource : {reference.resource}")
    requests, limits = subject.resources.requests, subject.resources.limits
    value = limits.get(name) if side == "limits" else requests.get(name, limits.get(name))
    if value is None:
        value = inputs.allocatable.get(name, 0) if side == "limits" else 0
    divisor = quantity.nano(reference.divisor) or quantity.NANO
    return str(quantity.divide(quantity.nano(value), divisor))
