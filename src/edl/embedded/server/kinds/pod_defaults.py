"""Defaults of a pod's spec, the same for a pod and for the template of a workload."""

from collections.abc import Iterator
from typing import Any

from edl.embedded.server.verbs.call import Object

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MODE = 420


def default_pod_spec(spec: Object) -> None:
    for container in containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    if "serviceAccount" in spec and "serviceAccountName" not in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")


def default_template(template: Object) -> None:
    default_pod_spec(template["spec"])


def containers(spec: Object) -> Iterator[Object]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _default_container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_http(handler)


def _default_probe(probe: Object) -> None:
    for name, value in _PROBE.items():
        if not probe.get(name):
            probe[name] = value
    _default_http(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(handler: Object) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _pull_policy(image: str) -> str:
    """Always for the tag `latest`, also when it is implied."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if not digest and tag in ("", "latest") else "IfNotPresent"


def _default_volume(volume: Object) -> None:
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if name in volume:
            volume[name].setdefault("defaultMode", _MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for item in _downward_items(volume):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
    for source in volume.get("projected", {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _downward_items(volume: Object) -> Iterator[Any]:
    yield from volume.get("downwardAPI", {}).get("items") or ()
    for source in volume.get("projected", {}).get("sources") or ():
        yield from source.get("downwardAPI", {}).get("items") or ()


def _default_host_ports(spec: Object) -> None:
    for container in containers(spec):
        for port in container.get("ports") or ():
            port.setdefault("hostPort", port.get("containerPort", 0))


def default_pod_alone(spec: Object) -> None:
    """Defaults of pods but not of templates: a limit is also the request."""
    for container in containers(spec):
        limits = container["resources"].get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if spec.get("hostNetwork"):
        _default_host_ports(spec)
