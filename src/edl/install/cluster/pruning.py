"""Removes objects that an installation has no more: those of options that were dropped.

An object is EDL's if it bears EDL's label and has a kind and a name that `edl install` can make. The namespace, the
kinds and Brain's history are never pruned: with them would go jobs, and what was learned. `edl uninstall` removes
those.
"""

from collections.abc import Callable, Iterable
from functools import cache

from edl.install.manifests import Manifest, manifests
from edl.install.options import LABELS, PART_OF, InstallOptions
from edl.install.resources import resource_of
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource

KEPT = frozenset({"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim"})
_ACCOUNT = "ServiceAccount"  # which may have any name
Identifier = tuple[str, str, str]
"""Kind, namespace and name."""


def everything(namespace: str) -> list[Manifest]:
    """An object of every kind and name that an installation can have, with options that bring them all."""
    return manifests(
        InstallOptions(
            namespace=namespace,
            namespaces="any",
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
def _prunable() -> dict[Resource, set[str]]:
    found: dict[Resource, set[str]] = {}
    for body in everything("any"):
        if body["kind"] not in KEPT:
            found.setdefault(resource_of(body), set()).add(body["metadata"]["name"])
    return found


async def prune(client: Client, wanted: Iterable[Manifest], say: Callable[[str], None]) -> None:
    """Leaves what is `wanted`."""
    keep = {_identifier(body["kind"], body) for body in wanted}
    for resource, names in _prunable().items():
        for body in await _labelled(client, resource):
            metadata = body["metadata"]
            if _identifier(resource.kind, body) not in keep and _is_installed(resource.kind, body, names):
                await client.delete(
                    resource, metadata["name"], namespace=metadata.get("namespace"), uid=metadata["uid"]
                )
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
