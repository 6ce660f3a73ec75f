"""The Deployment of the operators: two pods, on different nodes if possible, unprivileged and without a volume.

A new version starts beside the old one before that ends, so that there is always a leader or a standby.
"""

from typing import Any

from edl.install.options import LABELS, NAME, SELECTOR, InstallOptions
from edl.install.pods import RESTRICTED, TMP, log_arguments, placement, pod_metadata, pull_secrets
from edl.operator.settings import SERVICE_PORT

PROBE_PORT = 8080
WEBHOOK_PORT = 9443


def deployment(options: InstallOptions) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": options.namespace, "labels": LABELS},
        "spec": {
            "replicas": options.replicas,
            "revisionHistoryLimit": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": SELECTOR},
            "template": {"metadata": pod_metadata(options, LABELS), "spec": _pod(options)},
        },
    }


def disruption_budget(options: InstallOptions) -> dict[str, Any]:
    """One may be away at a time; a single operator does not keep a node from being drained."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": options.namespace, "labels": LABELS},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}},
    }


def _pod(options: InstallOptions) -> dict[str, Any]:
    return {
        "serviceAccountName": options.service_account,
        "automountServiceAccountToken": True,
        **pull_secrets(options),
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": options.affinity or apart(),
        **({"topologySpreadConstraints": spread} if (spread := options.topology_spread_constraints) else {}),
        **placement(options),
        "containers": [_container(options)],
        "volumes": [TMP],
    }


def apart() -> dict[str, Any]:
    """On different nodes, if possible."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": SELECTOR}}
    wish = {"weight": 100, "podAffinityTerm": term}
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def _container(options: InstallOptions) -> dict[str, Any]:
    return {
        "name": "operator",
        "image": options.whole_image,
        "imagePullPolicy": options.pull_policy,
        "args": arguments(options),
        "env": [
            _field("POD_NAME", "metadata.name"),
            _field("POD_NAMESPACE", "metadata.namespace"),
            _field("POD_IP", "status.podIP"),
            *options.extra_env,
        ],
        "ports": [
            {"name": "https", "containerPort": SERVICE_PORT, "protocol": "TCP"},
            {"name": "probes", "containerPort": PROBE_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": options.metrics_port, "protocol": "TCP"},
            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
        ],
        # The first answer comes once the caches are being filled; from then on a silent minute is one too many.
        "startupProbe": _probe("/healthz", periodSeconds=2, failureThreshold=60),
        "livenessProbe": _probe("/healthz", periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
        "readinessProbe": _probe("/readyz", periodSeconds=2, timeoutSeconds=2, failureThreshold=3),
        # No limit of CPU by default: an operator that is throttled loses its lease.
        "resources": {
            "requests": {"cpu": options.cpu, "memory": options.memory},
            "limits": {"memory": options.memory_limit, **({"cpu": options.cpu_limit} if options.cpu_limit else {})},
        },
        "securityContext": RESTRICTED,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def arguments(options: InstallOptions) -> list[str]:
    """Of `edl operator`. It listens on every address that the pod has, of either family. The kinds are installed with
    it, so that it needs no right to register any."""
    return [
        "operator",
        "--namespace=$(POD_NAMESPACE)",
        f"--image={options.whole_image}",
        f"--policy={options.policy}",
        f"--max-load={options.max_load}",
        f"--available={options.available}",
        f"--scale-hold={options.scale_hold}",
        f"--stalled-after={options.stalled_after}",
        f"--lease={options.lease}",
        f"--service=:{SERVICE_PORT}",
        f"--probes=:{PROBE_PORT}",
        f"--metrics=:{options.metrics_port}",
        f"--webhook=:{WEBHOOK_PORT}",
        "--no-crds",
        "--carry-runtime",
        *([f"--namespaces={options.namespaces}"] if options.namespaces else []),
        *(["--brain"] if options.brain else []),
        *([f"--pull-secret={options.pull_secret}"] if options.pull_secret else []),
        *([f"--authority-secret={options.authority_secret}"] if options.authority_secret else []),
        *log_arguments(options),
        *options.extra_args,
    ]


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(path: str, **timing: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "probes"}, **timing}
