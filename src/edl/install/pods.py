"""What all pods that EDL installs share: where they may run, how they are labelled, what they are restricted to.

A Deployment takes `pod_metadata` and `placement` and adds what it runs. Servers of one pod (Brain, the page) are made
alike by `https_service`, `one_pod` and `https_container`.
"""

from typing import Any

from edl.install.options import InstallOptions

USER = 65532  # of the image
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
TMP: dict[str, Any] = {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}


def pod_metadata(options: InstallOptions, labels: dict[str, str]) -> dict[str, Any]:
    annotations = {"annotations": options.pod_annotations} if options.pod_annotations else {}
    return {"labels": {**labels, **options.pod_labels}, **annotations}


def placement(options: InstallOptions) -> dict[str, Any]:
    found: dict[str, Any] = {
        "nodeSelector": options.node_selector,
        "tolerations": options.tolerations,
        "priorityClassName": options.priority_class_name,
    }
    return {field: value for field, value in found.items() if value}


def pull_secrets(options: InstallOptions) -> dict[str, Any]:
    names = options.pull_secrets
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}


def log_arguments(options: InstallOptions) -> list[str]:
    """Of every command that EDL's pods run. What is the command's own default is left out."""
    chosen = [f"--log-format={options.log_format}"] if options.log_format != "text" else []
    return [*chosen, *(["--verbose"] if options.verbose else [])]


def https_service(metadata: dict[str, Any], selector: dict[str, str], port: int) -> dict[str, Any]:
    ports = [{"name": "https", "port": port, "targetPort": "https", "protocol": "TCP"}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": selector, "ports": ports}}


def one_pod(
    metadata: dict[str, Any], selector: dict[str, str], template: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """A Deployment of a server that is alone, because of what it keeps."""
    spec = {"replicas": 1, "revisionHistoryLimit": 3, **more, "selector": {"matchLabels": selector}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {**spec, "template": template}}


def https_container(
    options: InstallOptions,
    name: str,
    arguments: list[str],
    port: int,
    resources: dict[str, Any],
    *,
    env: list[dict[str, Any]],
    mounts: list[dict[str, Any]],
) -> dict[str, Any]:
    """It is live by /healthz; by /readyz it is ready, which it is not while what it depends on does not answer."""
    return {
        "name": name,
        "image": options.whole_image,
        "imagePullPolicy": options.pull_policy,
        "args": arguments,
        **({"env": env} if env else {}),
        "ports": [{"name": "https", "containerPort": port, "protocol": "TCP"}],
        "startupProbe": _probe("/healthz", periodSeconds=2, failureThreshold=60),
        "livenessProbe": _probe("/healthz", periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
        "readinessProbe": _probe("/readyz", periodSeconds=5, timeoutSeconds=5, failureThreshold=3),
        "resources": resources,
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, *mounts],
    }


def _probe(path: str, **timing: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, **timing}
