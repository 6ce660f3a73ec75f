"""Owner references, by which Kubernetes deletes children with their parent."""

from typing import Any

from edl.kube.cache.objects import Object, controller_of
from edl.kube.rest.resource import Resource


def owner_reference(resource: Resource, owner: Object) -> dict[str, Any]:
    """Of a child's controller, whose foreground deletion waits for the child. Both must live in one namespace."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_controlled_by(item: Object, owner: Object) -> bool:
    """By this very owner: a namesake that was deleted and made again is another one."""
    found = controller_of(item)
    return found is not None and found.uid == owner.metadata.uid
