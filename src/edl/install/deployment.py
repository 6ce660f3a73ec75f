"""The operators themselves: two of them, apart if there is room, without any privilege.

Nothing of them lasts on a disk. A new version comes up beside the old one before that leaves, so that somebody always
leads or is about to.
"""

from typing import Any

from edl.install.choices import LABELS, NAME, SELECTOR, Choices
from edl.operator.settings import SERVICE_PORT

PROBE_PORT = 8080
WEBHOOK_PORT = 9443
USER = 65532  # of the image
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
TMP: dict[str, Any] = {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}


def deployment(choices: Choices) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": choices.namespace, "labels": LABELS},
        "spec": {
            "replicas": choices.replicas,
            "revisionHistoryLimit": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": SELECTOR},
            "template": {"metadata": {"labels": LABELS}, "spec": _pod(choices)},
        },
    }


def disruption_budget(choices: Choices) -> dict[str, Any]:
    """One may be away at a time; a single operator does not keep a node from being drained."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": choices.namespace, "labels": LABELS},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}},
    }


def _pod(choices: Choices) -> dict[str, Any]:
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        **pull_secrets(choices),
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_apart()]}},
        "containers": [_container(choices)],
        "volumes": [TMP],
    }


def pull_secrets(choices: Choices) -> dict[str, Any]:
    return {"imagePullSecrets": [{"name": choices.pull_secret}]} if choices.pull_secret else {}


def _apart() -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": SELECTOR}}
    return {"weight": 100, "podAffinityTerm": term}


def _container(choices: Choices) -> dict[str, Any]:
    return {
        "name": "operator",
        "image": choices.image,
        "imagePullPolicy": choices.pull_policy,
        "args": arguments(choices),
        "env": [
            _field("POD_NAME", "metadata.name"),
            _field("POD_NAMESPACE", "metadata.namespace"),
            _field("POD_IP", "status.podIP"),
        ],
        "ports": [
            {"name": "https", "containerPort": SERVICE_PORT, "protocol": "TCP"},
            {"name": "probes", "containerPort": PROBE_PORT, "protocol": "TCP"},
            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
        ],
        # The first answer comes once the caches are being filled; from then on a silent minute is one too many.
        "startupProbe": _probe("/healthz", periodSeconds=2, failureThreshold=60),
        "livenessProbe": _probe("/healthz", periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
        "readinessProbe": _probe("/readyz", periodSeconds=2, timeoutSeconds=2, failureThreshold=3),
        # No limit of CPU: an operator that is throttled loses its lease.
        "resources": {
            "requests": {"cpu": choices.cpu, "memory": choices.memory},
            "limits": {"memory": choices.memory_limit},
        },
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def arguments(choices: Choices) -> list[str]:
    """Of `edl operator`. It listens on every address that the pod has, of either family. The kinds are installed with
    it, so that it needs no right to register any."""
    return [
        "operator",
        "--namespace=$(POD_NAMESPACE)",
        f"--image={choices.image}",
        f"--policy={choices.policy}",
        f"--max-load={choices.max_load}",
        f"--available={choices.available}",
        f"--lease={choices.lease}",
        f"--service=:{SERVICE_PORT}",
        f"--probes=:{PROBE_PORT}",
        f"--webhook=:{WEBHOOK_PORT}",
        "--no-crds",
        *(["--brain"] if choices.brain else []),
    ]


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(path: str, **timing: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "probes"}, **timing}
