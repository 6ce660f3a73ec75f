"""The built-in kinds' particulars by storage key; what is not listed has none."""

from __future__ import annotations

from edl.embedded.server.kinds import cluster, config, jobs, network, pods, workloads
from edl.embedded.server.kinds.base import Kind
from edl.embedded.server.registry import Resource

_PLAIN = Kind()
_KINDS = {
    "/configmaps": config.CONFIG_MAP,
    "/events": config.EVENT,
    "/limitranges": cluster.LIMIT_RANGE,
    "/namespaces": cluster.NAMESPACE,
    "/nodes": cluster.NODE,
    "/pods": pods.POD,
    "/resourcequotas": cluster.QUOTA,
    "/secrets": config.SECRET,
    "/serviceaccounts": config.SERVICE_ACCOUNT,
    "/services": network.SERVICE,
    "apiextensions.k8s.io/customresourcedefinitions": Kind(has_status=True, generation=True),
    "apps/deployments": workloads.DEPLOYMENT,
    "apps/replicasets": workloads.REPLICASET,
    "apps/statefulsets": workloads.STATEFULSET,
    "batch/jobs": jobs.JOB,
    "coordination.k8s.io/leases": cluster.LEASE,
    "discovery.k8s.io/endpointslices": network.ENDPOINT_SLICE,
    "rbac.authorization.k8s.io/clusterrolebindings": config.ROLE_BINDING,
    "rbac.authorization.k8s.io/rolebindings": config.ROLE_BINDING,
    "scheduling.k8s.io/priorityclasses": cluster.PRIORITY,
}


def kind_of(resource: Resource) -> Kind:
    if resource.custom is not None:
        custom: Kind = resource.custom.kind
        return custom
    return _KINDS.get(resource.storage, _PLAIN)
