"""API resources of the kinds that the operator works with, and the types that they are decoded into."""

from typing import Any

import msgspec

from edl.api.kubernetes.core import (
    Job,
    LimitRange,
    Namespace,
    Node,
    Pod,
    PriorityClass,
    ReplicaSet,
    ResourceQuota,
    Secret,
    Service,
    StatefulSet,
)
from edl.api.kubernetes.meta import ObjectMeta
from edl.jobs.core.kind import Kind
from edl.jobs.registry import JOB_RESOURCE, TRAINING_JOB
from edl.kube.rest.resource import Resource


def _of(kind: Any, plural: str, *, namespaced: bool = True) -> Resource:
    group, _, version = kind.API_VERSION.rpartition("/")
    return Resource(group, version, plural, kind.KIND, namespaced)


PODS = _of(Pod, "pods")
NODES = _of(Node, "nodes", namespaced=False)
SERVICES = _of(Service, "services")
SECRETS = _of(Secret, "secrets")
REPLICA_SETS = _of(ReplicaSet, "replicasets")
STATEFUL_SETS = _of(StatefulSet, "statefulsets")
JOBS = _of(Job, "jobs")
QUOTAS = _of(ResourceQuota, "resourcequotas")
LIMIT_RANGES = _of(LimitRange, "limitranges")
PRIORITY_CLASSES = _of(PriorityClass, "priorityclasses", namespaced=False)
NAMESPACES = _of(Namespace, "namespaces", namespaced=False)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)


def resource_of(kind: Kind) -> Resource:
    return Resource(kind.group, kind.versions[0], kind.plural, kind.name)


TRAINING_JOBS = resource_of(TRAINING_JOB)


JOB_RESOURCES = resource_of(JOB_RESOURCE)


class RawJob(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A job as the server sent it: its spec is not decoded, so that an invalid one does not hide the others."""

    metadata: ObjectMeta
    api_version: str = ""
    kind: str = ""
    spec: Any = None
    status: Any = None
