"""Objects of the Brain: one pod without any permission in the cluster, and the volume for its history.

There is one pod, because SQLite has one writer and because jobs that compete for capacity must ask the same Brain;
without it trainers plan by local rules, so that it may be down for a while. Key and certificate are in a Secret that
operators create: the pod waits for it.
"""

from typing import Any

from edl.install.options import PART_OF, QUOTA_CALLS, QUOTA_JOBS, QUOTA_MIB, VERSION, InstallOptions
from edl.install.pods import (
    TMP,
    USER,
    https_container,
    https_service,
    log_arguments,
    one_pod,
    placement,
    pod_metadata,
    pull_secrets,
)
from edl.operator.settings import BRAIN, BRAIN_PORT

SELECTOR = {"app.kubernetes.io/name": BRAIN}
LABELS = {**SELECTOR, **VERSION, **PART_OF}
HOME, PROOF = "/data", "/etc/edl-brain"
DATABASE_KEY = "url"  # in the Secret that names a PostgreSQL


def brain_objects(options: InstallOptions) -> list[dict[str, Any]]:
    service = https_service(_metadata(options), SELECTOR, BRAIN_PORT)
    return [*([_claim(options)] if claims(options) else []), service, _deployment(options)]


def claims(options: InstallOptions) -> bool:
    """Whether the history is in a file that outlives the pod."""
    return bool(options.brain_storage) and not options.brain_database


def _metadata(options: InstallOptions) -> dict[str, Any]:
    return {"name": BRAIN, "namespace": options.namespace, "labels": LABELS}


def _claim(options: InstallOptions) -> dict[str, Any]:
    """Of the cluster's default class, unless one is named."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        **({"storageClassName": options.brain_storage_class} if options.brain_storage_class else {}),
        "resources": {"requests": {"storage": options.brain_storage}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": _metadata(options), "spec": spec}


def _deployment(options: InstallOptions) -> dict[str, Any]:
    template = {"metadata": pod_metadata(options, LABELS), "spec": _pod(options)}
    return one_pod(_metadata(options), SELECTOR, template, strategy={"type": "Recreate"})


def _pod(options: InstallOptions) -> dict[str, Any]:
    kept = {"persistentVolumeClaim": {"claimName": BRAIN}} if claims(options) else {"emptyDir": {}}
    return {
        **({"serviceAccountName": account} if (account := options.brain_service_account) else {}),
        "automountServiceAccountToken": False,
        **pull_secrets(options),
        **placement(options),
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(options)],
        "volumes": [TMP, {"name": "history", **kept}, {"name": "proof", "secret": {"secretName": BRAIN}}],
    }


def _container(options: InstallOptions) -> dict[str, Any]:
    """Not ready while its database does not answer: it is seen, and trainers are refused at once."""
    resources = {
        "requests": {"cpu": options.brain_cpu, "memory": options.brain_memory},
        "limits": {"memory": options.brain_memory_limit},
    }
    mounts: list[dict[str, Any]] = [
        {"name": "history", "mountPath": HOME},
        {"name": "proof", "mountPath": PROOF, "readOnly": True},
    ]
    env = _environment(options)
    return https_container(options, "brain", arguments(options), BRAIN_PORT, resources, env=env, mounts=mounts)


def arguments(options: InstallOptions) -> list[str]:
    """Of `edl brain`. Quotas are told where they are not its own defaults."""
    quotas = (
        ("jobs", options.brain_quota_jobs, QUOTA_JOBS),
        ("mib", options.brain_quota_mib, QUOTA_MIB),
        ("calls", options.brain_quota_calls, QUOTA_CALLS),
    )
    return [
        "brain",
        f"--listen=:{BRAIN_PORT}",
        f"--tls-cert={PROOF}/tls.crt",
        f"--tls-key={PROOF}/tls.key",
        *(["--share-history"] if options.brain_share_history else []),
        *(f"--quota-{name}={given}" for name, given, default in quotas if given != default),
        *log_arguments(options),
        *options.brain_extra_args,
    ]


def _environment(options: InstallOptions) -> list[dict[str, Any]]:
    """With it `kubectl exec deploy/edl-brain -- edl brain jobs` knows whom to ask, and may."""
    plain = {
        "EDL_HOME": HOME,
        "EDL_BRAIN_KEY": f"{PROOF}/key",
        "EDL_BRAIN_CA": f"{PROOF}/ca.crt",
        "EDL_BRAIN_URL": f"https://localhost:{BRAIN_PORT}",
    }
    found: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in plain.items()]
    if options.brain_database:
        reference = {"secretKeyRef": {"name": options.brain_database, "key": DATABASE_KEY}}
        found.append({"name": "EDL_BRAIN_DATABASE", "valueFrom": reference})
    return [*found, *options.extra_env]
