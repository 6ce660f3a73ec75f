"""Objects of the page: a Deployment with an account that reads what the page shows and asks who may see it.

The account writes nothing: a change is made with the viewer's own credential. It reads no Secret; of Brain's the pod
is given a reader's token alone. Logs, Events and manifests are read by the viewers themselves. Its certificate is that
of `web_secret`, or one of its own making, which is enough for API servers' proxies and `kubectl port-forward`.
"""

from typing import Any

from edl.install.options import PART_OF, VERSION, WEB, WEB_PORT, InstallOptions
from edl.install.permissions import READ, Permission
from edl.install.pods import (
    TMP,
    https_container,
    https_service,
    log_arguments,
    one_pod,
    placement,
    pod_metadata,
    pull_secrets,
)
from edl.jobs.registry import KINDS
from edl.operator.settings import BRAIN, BRAIN_PORT, READER_TOKEN

SELECTOR = {"app.kubernetes.io/name": WEB}
LABELS = {**SELECTOR, **VERSION, **PART_OF}
_RBAC = "rbac.authorization.k8s.io"
TLS, PROOF = "/etc/edl-web", "/etc/edl-brain"


def web_objects(options: InstallOptions) -> list[dict[str, Any]]:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(options)}
    return [
        {**account, "automountServiceAccountToken": False},
        _role(options),
        _binding(options),
        _way_in(options),
        https_service(_metadata(options), SELECTOR, 443),
        _deployment(options),
    ]


def permissions() -> list[Permission]:
    ours = {group: tuple(kind.plural for kind in KINDS if kind.group == group) for group in {k.group for k in KINDS}}
    return [
        *(Permission(group, plurals, READ, "to show jobs") for group, plurals in sorted(ours.items())),
        Permission("", ("pods", "nodes", "namespaces"), READ, "to show what runs where"),
        Permission("", ("services", "resourcequotas", "limitranges"), READ, "to plan as operators do"),
        Permission("apps", ("replicasets", "statefulsets"), READ, "to plan as operators do"),
        Permission("batch", ("jobs",), READ, "to plan as operators do"),
        Permission("scheduling.k8s.io", ("priorityclasses",), READ, "to plan as operators do"),
        Permission("authentication.k8s.io", ("tokenreviews",), ("create",), "to know who looks"),
        Permission("authorization.k8s.io", ("subjectaccessreviews",), ("create",), "to know what they may see"),
    ]


def _metadata(options: InstallOptions) -> dict[str, Any]:
    return {"name": WEB, "namespace": options.namespace, "labels": LABELS}


def _role(options: InstallOptions) -> dict[str, Any]:
    rules = [permission.rule() for permission in permissions()]
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": options.cluster_name(WEB), "labels": LABELS},
        "rules": rules,
    }


def _binding(options: InstallOptions) -> dict[str, Any]:
    name = options.cluster_name(WEB)
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": LABELS},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": WEB, "namespace": options.namespace}],
    }


def _way_in(options: InstallOptions) -> dict[str, Any]:
    """For those who look, to be bound to them: `edl ui` gets to the page through the API server. What they see there
    is decided by their other rights."""
    proxied = {"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": [f"https:{WEB}:443"]}
    rules = [{**proxied, "verbs": ["get", "create", "delete"]}]
    return {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": _metadata(options), "rules": rules}


def _deployment(options: InstallOptions) -> dict[str, Any]:
    """One pod: sessions are in its memory."""
    template = {"metadata": pod_metadata(options, LABELS), "spec": _pod(options)}
    return one_pod(_metadata(options), SELECTOR, template)


def _pod(options: InstallOptions) -> dict[str, Any]:
    secret = {"secretName": options.web_secret, "optional": True}
    proof = {
        "secretName": BRAIN,
        "optional": True,
        "items": [{"key": name, "path": name} for name in (READER_TOKEN, "ca.crt")],
    }
    return {
        "serviceAccountName": WEB,
        "automountServiceAccountToken": True,
        **pull_secrets(options),
        **placement(options),
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(options)],
        "volumes": [TMP, {"name": "tls", "secret": secret}, {"name": "proof", "secret": proof}],
    }


def _container(options: InstallOptions) -> dict[str, Any]:
    resources = {
        "requests": {"cpu": "50m", "memory": options.web_memory},
        "limits": {"memory": options.web_memory_limit},
    }
    mounts = [
        {"name": "tls", "mountPath": TLS, "readOnly": True},
        {"name": "proof", "mountPath": PROOF, "readOnly": True},
    ]
    env = options.extra_env
    return https_container(options, "web", arguments(options), WEB_PORT, resources, env=env, mounts=mounts)


def arguments(options: InstallOptions) -> list[str]:
    """Of `edl web`."""
    brain = [
        f"--brain-url=https://{BRAIN}.{options.namespace}.svc:{BRAIN_PORT}",
        f"--brain-token={PROOF}/{READER_TOKEN}",
        f"--brain-ca={PROOF}/ca.crt",
    ]
    return [
        "web",
        "--viewers=cluster",
        f"--listen=:{WEB_PORT}",
        f"--tls-cert={TLS}/tls.crt",
        f"--tls-key={TLS}/tls.key",
        f"--tls-self-signed={WEB}.{options.namespace}.svc",
        f"--policy={options.policy}",
        f"--max-load={options.max_load}",
        *(brain if options.brain else []),
        *(["--actions"] if options.web_actions else []),
        *[one for one in log_arguments(options) if one != "--verbose"],
    ]
