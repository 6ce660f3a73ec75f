"""How API servers are told to have jobs checked before they store them. Whom to trust is written in by the operator."""

from typing import Any

from edl.api.kinds import KINDS
from edl.install.choices import LABELS, Choices
from edl.operator.settings import WEBHOOK

PATH = "/validate"


def webhook(choices: Choices) -> dict[str, Any]:
    """Without an answer within seconds the job is stored as it is: the operator judges it again in any case."""
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
                    "service": {"name": WEBHOOK, "namespace": choices.namespace, "path": PATH, "port": 443}
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
