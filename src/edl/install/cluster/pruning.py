"""Removes objects that an installation has no more: those of options that were dropped.

An object is EDL's if it bears EDL's label and has a kind and a name that `edl install` can make. Those of another
installation stay. The namespace, the kinds and Brain's history are never pruned: with them would go jobs, and what was
learned. `edl uninstall` removes those.
"""

from collections.abc import Callable, Iterable
from functools import cache

import msgspec

from edl.install.cluster.installed import Installed, installations
from edl.install.manifests import Manifest, manifests
from edl.install.options import LABELS, NAME, PART_OF, InstallOptions
from edl.install.resources import resource_of
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from edl.operator.settings import NAMESPACE

KEPT = frozenset({"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"})
_ACCOUNT = "ServiceAccount"  # which may have any name
Identifier = tuple[str, str, str]
"""Kind, namespace and name."""


class Scope(msgspec.Struct, frozen=True):
    """What is not another installation's. `plain`: the names without a namespace are free, or this one's."""

    plain: bool
    foreign: frozenset[str]
    """Where others are, and have jobs."""

    @classmethod
    async def of(cls, client: Client, namespace: str) -> "Scope":
        found = [one for one in await installations(client) if one.namespace != namespace]
        return cls(_plain_is_free(found), frozenset[str]().union(*(one.places for one in found)))

    def covers(self, body: Manifest) -> bool:
        name, place = body["metadata"]["name"], body["metadata"].get("namespace")
        return place not in self.foreign if place else self.plain or name not in _cluster_names(NAMESPACE)


def _plain_is_free(found: Iterable[Installed]) -> bool:
    return all(one.binding != NAME for one in found)


def everything(namespace: str, namespaces: str = "any") -> list[Manifest]:
    """An object of every kind and name that an installation can have, with options that bring them all."""
    return manifests(
        InstallOptions(
            namespace=namespace,
            namespaces=namespaces,
            server_budgets="any",
            authority_secret="any",
            cert_manager_issuer="any",
            pod_monitor="any",
            service_monitor=True,
            alerts=True,
            web=True,
            dashboard=True,
            crds=False,
            create_namespace=False,
        )
    )


@cache
def _cluster_names(namespace: str, namespaces: str = "any") -> set[str]:
    """Of objects that are in no namespace."""
    made = everything(namespace, namespaces)
    return {body["metadata"]["name"] for body in made if "namespace" not in body["metadata"]}


@cache
def _prunable(namespace: str) -> dict[Resource, set[str]]:
    found: dict[Resource, set[str]] = {}
    for body in (*everything(namespace), *everything(namespace, "")):
        if body["kind"] not in KEPT:
            found.setdefault(resource_of(body), set()).add(body["metadata"]["name"])
    return found


async def prune(client: Client, namespace: str, wanted: Iterable[Manifest], say: Callable[[str], None]) -> None:
    """Leaves what is `wanted`, and what is not of the installation in `namespace`."""
    keep, scope = {_identifier(body["kind"], body) for body in wanted}, await Scope.of(client, namespace)
    for resource, names in _prunable(namespace).items():
        for body in await _labelled(client, resource):
            kept = _identifier(resource.kind, body) in keep or not scope.covers(body)
            if not kept and _is_installed(resource.kind, body, names):
                await _delete(client, resource, body, say)


async def prune_renamed(client: Client, wanted: InstallOptions, say: Callable[[str], None]) -> None:
    """Objects in no namespace of an installation that had other names, for it was not limited, or is not any more:
    its operators would keep the rights that they had."""
    now = _cluster_names(wanted.namespace, wanted.namespaces and "any")
    former = (_cluster_names(wanted.namespace) | _cluster_names(wanted.namespace, "")) - now
    bindings = {one.binding for one in await installations(client) if one.namespace == wanted.namespace}
    if not bindings & former:
        return
    for resource in _prunable(wanted.namespace):
        for body in await _labelled(client, resource) if not resource.namespaced else ():
            if body["metadata"]["name"] in former:
                await _delete(client, resource, body, say)


async def _delete(client: Client, resource: Resource, body: Manifest, say: Callable[[str], None]) -> None:
    metadata = body["metadata"]
    await client.delete(resource, metadata["name"], namespace=metadata.get("namespace"), uid=metadata["uid"])
    say(f"{resource.kind} {metadata['name']} removed")


def _identifier(kind: str, body: Manifest) -> Identifier:
    return kind, body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _is_installed(kind: str, body: Manifest, names: set[str]) -> bool:
    labels = body["metadata"].get("labels") or {}
    return body["metadata"]["name"] in names or (
        kind == _ACCOUNT and all(labels.get(key) == LABELS[key] for key in LABELS if not key.endswith("/version"))
    )


async def _labelled(client: Client, resource: Resource) -> list[Manifest]:
    """A kind that the server does not know has no objects."""
    try:
        return (await client.list(resource, labels=PART_OF)).items
    except ApiError as error:
        if error.is_not_found:
            return []
        raise
