"""API resources of the objects of an installation."""

from typing import Any

from edl.kube.rest.resource import Resource

_CLUSTER_WIDE = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


def resource_of(body: dict[str, Any]) -> Resource:
    """Every installed kind has a regular plural."""
    group, _, version = body["apiVersion"].rpartition("/")
    kind = body["kind"]
    singular = kind.lower()
    plural = f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
    return Resource(group, version, plural, kind, kind not in _CLUSTER_WIDE)
