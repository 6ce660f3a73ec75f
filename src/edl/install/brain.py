"""Brain beside the operators: one pod without any right in the cluster, and where its history lasts.

There is one, because SQLite has one writer and because jobs that compete for room must ask the same one; without it
trainers plan by local rules, so that it may be away for a while. Key and certificate are in a Secret that operators
make: the pod waits for it.
"""

from typing import Any

from edl.install.choices import PART_OF, VERSION, Choices
from edl.install.deployment import RESTRICTED, TMP, USER, pull_secrets
from edl.operator.settings import BRAIN, BRAIN_PORT

SELECTOR = {"app.kubernetes.io/name": BRAIN}
LABELS = {**SELECTOR, **VERSION, **PART_OF}
HOME, PROOF = "/data", "/etc/edl-brain"
DATABASE_KEY = "url"  # in the Secret that names a PostgreSQL


def brain_objects(choices: Choices) -> list[dict[str, Any]]:
    return [*([_claim(choices)] if claims(choices) else []), _service(choices), _deployment(choices)]


def claims(choices: Choices) -> bool:
    """Whether the history is in a file that outlives the pod."""
    return bool(choices.brain_storage) and not choices.brain_database


def _metadata(choices: Choices) -> dict[str, Any]:
    return {"name": BRAIN, "namespace": choices.namespace, "labels": LABELS}


def _claim(choices: Choices) -> dict[str, Any]:
    """Of the cluster's default class."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": choices.brain_storage}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": _metadata(choices), "spec": spec}


def _service(choices: Choices) -> dict[str, Any]:
    port = {"name": "https", "port": BRAIN_PORT, "targetPort": "https", "protocol": "TCP"}
    spec = {"selector": SELECTOR, "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(choices), "spec": spec}


def _deployment(choices: Choices) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(choices),
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 3,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": SELECTOR},
            "template": {"metadata": {"labels": LABELS}, "spec": _pod(choices)},
        },
    }


def _pod(choices: Choices) -> dict[str, Any]:
    kept = {"persistentVolumeClaim": {"claimName": BRAIN}} if claims(choices) else {"emptyDir": {}}
    return {
        "automountServiceAccountToken": False,
        **pull_secrets(choices),
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(choices)],
        "volumes": [TMP, {"name": "history", **kept}, {"name": "proof", "secret": {"secretName": BRAIN}}],
    }


def _container(choices: Choices) -> dict[str, Any]:
    return {
        "name": "brain",
        "image": choices.image,
        "imagePullPolicy": choices.pull_policy,
        "args": arguments(),
        "env": _environment(choices),
        "ports": [{"name": "https", "containerPort": BRAIN_PORT, "protocol": "TCP"}],
        "startupProbe": _probe("/healthz", periodSeconds=2, failureThreshold=60),
        "livenessProbe": _probe("/healthz", periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
        # Not ready while its database does not answer: it is seen, and trainers are refused at once.
        "readinessProbe": _probe("/readyz", periodSeconds=5, timeoutSeconds=5, failureThreshold=3),
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": RESTRICTED,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "history", "mountPath": HOME},
            {"name": "proof", "mountPath": PROOF, "readOnly": True},
        ],
    }


def arguments() -> list[str]:
    return ["brain", f"--listen=:{BRAIN_PORT}", f"--tls-cert={PROOF}/tls.crt", f"--tls-key={PROOF}/tls.key"]


def _environment(choices: Choices) -> list[dict[str, Any]]:
    """With it `kubectl exec deploy/edl-brain -- edl brain jobs` knows whom to ask, and may."""
    plain = {
        "EDL_HOME": HOME,
        "EDL_BRAIN_KEY": f"{PROOF}/key",
        "EDL_BRAIN_CA": f"{PROOF}/ca.crt",
        "EDL_BRAIN_URL": f"https://localhost:{BRAIN_PORT}",
    }
    found: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in plain.items()]
    if choices.brain_database:
        reference = {"secretKeyRef": {"name": choices.brain_database, "key": DATABASE_KEY}}
        found.append({"name": "EDL_BRAIN_DATABASE", "valueFrom": reference})
    return found


def _probe(path: str, **timing: int) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, **timing}
