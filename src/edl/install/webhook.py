"""The configuration of the validating webhook. The operator adds its CA to it later."""

from typing import Any

from edl.install.options import LABELS, InstallOptions
from edl.jobs.registry import KINDS
from edl.operator.settings import WEBHOOK

PATH = "/validate"


def webhook(options: InstallOptions) -> dict[str, Any]:
    """Without an answer within seconds the job is stored as it is: the operator validates it again in any case."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": WEBHOOK, "labels": LABELS},
        "webhooks": [
            {
                "name": "validate.edl.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "timeoutSeconds": 5,
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
