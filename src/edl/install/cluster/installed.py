"""Which installations of EDL a cluster has, by the rights that they have: where each is, and what it looks after.

There is one that looks after jobs everywhere, or there are several with namespaces of their own. The kinds are all that
they share.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from edl.install.options import NAME, InstallOptions
from edl.install.permissions import JOBS_ROLE
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.operator.settings import cluster_name

_RBAC = "rbac.authorization.k8s.io"
BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", False)
_IN_NAMESPACES = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
Data = dict[str, Any]


class SecondInstallationError(Exception):
    """Another installation is in the way; the message says where it is, and what to do."""


class Installed(msgspec.Struct, frozen=True):
    """`binding` gives the operators in `namespace` their rights. No `namespaces`: it looks after jobs everywhere."""

    namespace: str
    binding: str
    namespaces: frozenset[str] = frozenset()

    @property
    def places(self) -> frozenset[str]:
        """Where nobody else may have jobs. Its own is one of them: there is its key."""
        return self.namespaces | {self.namespace}

    def looks_after(self, namespace: str | None) -> bool:
        return not self.namespaces or namespace in self.namespaces


async def installations(client: Client) -> list[Installed]:
    return [
        Installed(place, binding["metadata"]["name"], await _limits(client, binding, place))
        for binding in (await client.list(BINDINGS)).items
        for place in _subjects(binding)
        if binding["metadata"]["name"] in (NAME, cluster_name(NAME, place, limited=True))
    ]


async def others(client: Client, namespace: str) -> list[Installed]:
    return [one for one in await installations(client) if one.namespace != namespace]


async def refuse_second(client: Client, wanted: InstallOptions) -> None:
    """Two that look after the same jobs would undo each other's work."""
    own = Installed(wanted.namespace, wanted.cluster_name(NAME), frozenset(wanted.job_namespaces))
    for other in await others(client, wanted.namespace):
        if problem := _conflict(own, other):
            raise SecondInstallationError(f"EDL is in namespace {other.namespace} of this cluster already: {problem}")


def _conflict(own: Installed, other: Installed) -> str:
    place, shared = other.namespace, ", ".join(sorted(own.places & other.places))
    if own.namespaces and other.namespaces:
        return f"{shared} is where it has jobs, or is; name other --namespaces, or change its own" if shared else ""
    rights = f"ClusterRoleBinding {other.binding} gives its rights to the operators there, and "
    wide = "this one would" if other.namespaces else "they"
    return (
        f"{rights}{wide} look after jobs everywhere. Change that one (-n {place}), or remove it first: edl uninstall "
        f"-n {place}; or limit both to --namespaces of their own"
    )


async def _limits(client: Client, binding: Data, place: str) -> frozenset[str]:
    """None: it may make pods everywhere, or it is not known that it may not."""
    role = await client.find(_ROLES, binding["roleRef"]["name"])
    if role is None or any(_makes_pods(rule) for rule in role.get("rules") or ()):
        return frozenset()
    bound = (await client.list(_IN_NAMESPACES)).items
    return frozenset(
        one["metadata"]["namespace"]
        for one in bound
        if one["metadata"]["name"] == JOBS_ROLE and place in _subjects(one)
    )


def _makes_pods(rule: Data) -> bool:
    return "pods" in (rule.get("resources") or ()) and "create" in rule["verbs"]


def _subjects(binding: Data) -> Iterable[str]:
    return sorted({one["namespace"] for one in binding.get("subjects") or () if one.get("namespace")})
