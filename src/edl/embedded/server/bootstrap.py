"""Objects of a fresh cluster: the system's namespaces and priority classes, and the `kubernetes` Service."""

import ipaddress

from edl.embedded.server.admission import definitions, namespaces
from edl.embedded.server.core import Core
from edl.embedded.server.verbs.call import Object

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


async def bootstrap(core: Core, *, port: int) -> None:
    """Creates the missing objects and registers the definitions. Idempotent."""
    for name in _NAMESPACES:
        meta = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
        namespace: Object = {"metadata": meta, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        core.ensure("", "v1", "namespaces", namespace)
        namespaces.create_default_objects(core, namespace)
    for name, value in _PRIORITIES.items():
        priority: Object = {"metadata": {"name": name, "generation": 1}, "value": value}
        priority |= {"description": "Used for parts of the cluster itself.", "preemptionPolicy": "PreemptLowerPriority"}
        core.ensure("scheduling.k8s.io", "v1", "priorityclasses", priority)
    core.ensure("", "v1", "services", _own_service(core, port))
    definitions.publish_all(core)
    await core.store.committed()


def _own_service(core: Core, port: int) -> Object:
    address = str(next(ipaddress.ip_network(core.service_network).hosts()))
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": address,
            "clusterIPs": [address],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }
