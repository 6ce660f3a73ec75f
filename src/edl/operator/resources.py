"""Where the kinds that the operator works with live in the API, and as what they are read."""

from typing import Any

import msgspec

from edl.api import kinds
from edl.api.core import (
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
from edl.api.kinds import Kind
from edl.api.meta import ObjectMeta
from edl.kube.resource import Resource


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


TRAINING_JOBS = resource_of(kinds.TRAINING_JOB)


JOB_RESOURCES = resource_of(kinds.JOB_RESOURCE)


class RawJob(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One of our own kinds as it came: its spec may be anything, and must not keep us from reading the others."""

    metadata: ObjectMeta
    api_version: str = ""
    kind: str = ""
    spec: Any = None
    status: Any = None
