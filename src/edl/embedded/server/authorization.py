"""Authorization by one fixed rule: who has the cluster's own credential may do everything, a pod's token little.

The token of a service account, which is what a pod has, reads and writes pods, ConfigMaps and the custom resources of
`Core.pod_groups` in its own namespace, and nothing else. There is no RBAC: Roles and bindings are stored and ignored.
"""

from collections.abc import Callable

from edl.embedded.server.registry import Resource
from edl.embedded.server.verbs.call import ANONYMOUS, User

PodGroups = Callable[[], frozenset[str]]
"""API groups of custom resources that tokens of pods open; asked when one of them is asked for."""

_ACCOUNT = "system:serviceaccount:"
_CORE = ("pods", "configmaps")
_SUBRESOURCES = ("", "log", "status", "scale")
_SELF = ("selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews")


def no_groups() -> frozenset[str]:
    return frozenset()


def account_namespace(user: User) -> str | None:
    """The namespace of a service account's token; None for everybody else."""
    return user.name.removeprefix(_ACCOUNT).partition(":")[0] if user.name.startswith(_ACCOUNT) else None


def allowed(user: User, resource: Resource, namespace: str, subresource: str, pod_groups: PodGroups) -> bool:
    if user is ANONYMOUS:
        return False
    own = account_namespace(user)
    if own is None:
        return True
    if resource.plural in _SELF:
        return True
    if not resource.namespaced or namespace != own or subresource not in _SUBRESOURCES:
        return False
    return resource.group in pod_groups() if resource.group else resource.plural in _CORE
