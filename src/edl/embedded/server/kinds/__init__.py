"""Strategies of the built-in kinds by storage key; a kind that is not listed has the plain one."""

from edl.embedded.server.kinds import cluster, config, jobs, network, pods, workloads
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.registry import Resource

_PLAIN = Strategy()
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
    "apiextensions.k8s.io/customresourcedefinitions": Strategy(has_status=True, generation=True),
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


def strategy_of(resource: Resource) -> Strategy:
    if resource.custom is not None:
        custom: Strategy = resource.custom.strategy
        return custom
    return _KINDS.get(resource.storage, _PLAIN)
