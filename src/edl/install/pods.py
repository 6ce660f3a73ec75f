"""What all pods that EDL installs share: where they may run, how they are labelled, what they are restricted to.

A Deployment takes `pod_metadata` and `placement` and adds what it runs.
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
