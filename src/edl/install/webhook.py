"""The configuration of the validating webhook. The operator adds its CA to it later."""

from typing import Any

from edl.install.options import LABELS, InstallOptions
from edl.jobs.registry import KINDS
from edl.operator.settings import WEBHOOK

PATH = "/validate"
NAME_LABEL = "kubernetes.io/metadata.name"  # which Kubernetes gives every namespace


def webhook(options: InstallOptions) -> dict[str, Any]:
    """Without an answer within seconds the job is stored as it is: the operator validates it again in any case."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": options.cluster_name(WEBHOOK), "labels": LABELS},
        "webhooks": [
            {
                "name": "validate.edl.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "timeoutSeconds": 5,
                **_where(options),
                "clientConfig": {
                    "service": {"name": WEBHOOK, "namespace": options.namespace, "path": PATH, "port": 443}
                },
                "rules": [
                    {
                        "apiGroups": [kind.group],
                        "apiVersions": list(kind.versions),
                        "resources": [kind.plural],
                        "operations": ["CREATE", "UPDATE"],
                        "scope": "Namespaced",
                    }
                    for kind in KINDS
                ],
            }
        ],
    }


def _where(options: InstallOptions) -> dict[str, Any]:
    """An installation that is limited to namespaces checks the jobs of those: others may be another one's."""
    if not options.job_namespaces:
        return {}
    wanted = {"key": NAME_LABEL, "operator": "In", "values": list(options.job_namespaces)}
    return {"namespaceSelector": {"matchExpressions": [wanted]}}
