"""What a fresh cluster contains before anyone asks: the system's namespaces and priority classes."""

from __future__ import annotations

from edl.embedded.server.call import Object
from edl.embedded.server.core import Core

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


async def bootstrap(core: Core) -> None:
    """Create what is missing. Idempotent: a restart creates nothing."""
    for name in _NAMESPACES:
        _ensure(core, "", "v1", "namespaces", {"metadata": namespace_metadata(name), **_NAMESPACE})
    for name, value in _PRIORITIES.items():
        body: Object = {"metadata": {"name": name, "generation": 1}, "value": value}
        body |= {"description": "Used for parts of the cluster itself.", "preemptionPolicy": "PreemptLowerPriority"}
        _ensure(core, "scheduling.k8s.io", "v1", "priorityclasses", body)
    await core.store.committed()


_NAMESPACE: Object = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def namespace_metadata(name: str) -> Object:
    return {"name": name, "labels": {"kubernetes.io/metadata.name": name}}


def _ensure(core: Core, group: str, version: str, plural: str, body: Object) -> None:
    resource = core.registry.find(group, version, plural)
    assert resource is not None
    meta = body["metadata"]
    if core.store.latest(resource.storage, (meta.get("namespace", ""), meta["name"])) is None:
        meta |= {"uid": core.new_uid(), "creationTimestamp": core.now()}
        core.put(resource, body)
