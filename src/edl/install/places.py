"""Where in the API the kinds of an installation live."""

from typing import Any

from edl.kube.resource import Resource

_CLUSTER_WIDE = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "ValidatingWebhookConfiguration",
}


def resource_of(body: dict[str, Any]) -> Resource:
    """Every kind that we install has the regular plural."""
    group, _, version = body["apiVersion"].rpartition("/")
    kind = body["kind"]
    return Resource(group, version, f"{kind.lower()}s", kind, kind not in _CLUSTER_WIDE)
