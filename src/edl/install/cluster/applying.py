"""Applies an installation to a cluster by server-side apply, so that applying it twice changes nothing.

Fields that an earlier `kubectl apply` or a release of Helm set become ours first: what this installation does not want
any more then goes. Fields of anybody else, such as the webhook's authority that operators write, stay.
"""

from collections.abc import Callable, Iterable
from typing import Any

from edl.install.manifests import Manifest
from edl.install.resources import resource_of
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource

MANAGER = "edl-cli"
INSTALLERS = frozenset({"kubectl-client-side-apply", "kubectl", "helm"})
"""Field managers of the other ways to install EDL."""


class MissingKindError(Exception):
    """The cluster does not have a kind of which an object is to be applied."""


async def apply_all(client: Client, objects: Iterable[Manifest], say: Callable[[str], None]) -> None:
    for body in objects:
        resource, metadata = resource_of(body), body["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace")
        try:
            await take_over(client, resource, name, namespace)
            await client.apply(resource, name, body, namespace=namespace, field_manager=MANAGER)
        except ApiError as error:
            if not error.is_not_found:
                raise
            raise MissingKindError(f"this cluster has no {resource.kind} ({resource.api_version})") from None
        say(f"{resource.kind} {name} applied")


async def take_over(client: Client, resource: Resource, name: str, namespace: str | None) -> None:
    found = await client.find(resource, name, namespace=namespace)
    before = (found or {}).get("metadata", {}).get("managedFields") or []
    after = ours_alone(before)
    if found is not None and after != before:
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": after},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]},
        ]
        await client.patch(resource, name, patch, kind="json", namespace=namespace)


def ours_alone(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries, with those of other installers joined to ours. Nothing of theirs: the same entries."""
    theirs = [one for one in entries if one.get("manager") in INSTALLERS and not one.get("subresource")]
    if not theirs:
        return entries
    own = [one for one in entries if (one.get("manager"), one.get("operation")) == (MANAGER, "Apply")]
    fields: dict[str, Any] = {}
    for entry in (*own, *theirs):
        fields = _union(fields, entry.get("fieldsV1") or {})
    joined = {**(own or theirs)[0], "manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    return [*(one for one in entries if one not in theirs and one not in own), joined]


def _union(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {**one, **{key: _union(one.get(key, {}), inner) for key, inner in other.items()}}
