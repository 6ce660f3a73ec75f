"""The same tests on a real API server: $EDL_TEST_KUBECONFIG names one that has no controllers and no scheduler of its
own.

test_on_kubernetes.py starts such a one and runs the tests of controllers, pod scheduler and nodes on it. It outlives
the tests, so it is emptied after each of what they make.
"""

import contextlib
import os

from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource

KUBECONFIG = os.environ.get("EDL_TEST_KUBECONFIG", "")
PAUSE = 0.1 if KUBECONFIG else 0.02
"""Seconds between two looks: a real one takes milliseconds of the processor for each."""

_NAMES = "default", "kube-node-lease"
_OWN = "kubernetes"
"""The API server's own Service and its endpoints."""
_MADE = [
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("apps", "v1", "replicasets", "ReplicaSet"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "services", "Service"),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource("", "v1", "configmaps", "ConfigMap"),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "limitranges", "LimitRange"),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("", "v1", "nodes", "Node", namespaced=False),
]
_NAMED = [
    (Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False), "high"),
    (
        Resource(
            "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
        ),
        "things.example.com",
    ),
]


async def prepare(client: Client) -> None:
    """What a controller would have made: nothing can run without a service account."""
    accounts = Resource("", "v1", "serviceaccounts", "ServiceAccount")
    with contextlib.suppress(ApiError):
        await client.create(accounts, {"metadata": {"name": "default"}}, namespace="default")


async def empty(client: Client) -> None:
    for resource in _MADE:
        for namespace in _NAMES if resource.namespaced else (None,):
            for item in (await client.list(resource, namespace=namespace)).items:
                if item["metadata"]["name"] != _OWN:
                    await _delete(client, resource, item["metadata"]["name"], namespace)
    for resource, name in _NAMED:
        await _delete(client, resource, name, None)


async def _delete(client: Client, resource: Resource, name: str, namespace: str | None) -> None:
    with contextlib.suppress(ApiError):
        await client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace=namespace)
        await client.delete(resource, name, namespace=namespace, grace=0)
