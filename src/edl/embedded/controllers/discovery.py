"""Discovery of the kinds that a server has, for garbage collection and namespaces, which concern all of them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import Request

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
)


class Kinds:
    """Resources that can be listed, watched and deleted, by group and kind; the preferred version of each."""

    def __init__(self, resources: Mapping[tuple[str, str], Resource]) -> None:
        self._resources = resources

    def __iter__(self) -> Any:
        return iter(self._resources.values())

    def find(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a reference. Versions of one kind are the same objects."""
        return self._resources.get((api_version.rpartition("/")[0], kind))

    def namespaced(self) -> list[Resource]:
        return [resource for resource in self._resources.values() if resource.namespaced]


async def discover(client: Client) -> Kinds:
    found: dict[tuple[str, str], Resource] = {}
    for path in ("/api", "/apis"):
        answer = await client.raw(Request("GET", path, accept=_AGGREGATED))
        for group in msgspec.json.decode(answer.body).get("items") or ():
            name = (group.get("metadata") or {}).get("name", "")
            for version in group.get("versions") or ():
                for entry in version.get("resources") or ():
                    _add(found, name, version["version"], entry)
    return Kinds(found)


def _add(found: dict[tuple[str, str], Resource], group: str, version: str, entry: Mapping[str, Any]) -> None:
    kind = (entry.get("responseKind") or {}).get("kind", "")
    if not {"list", "watch", "delete", "get"} <= set(entry.get("verbs") or ()):
        return
    resource = Resource(group, version, entry["resource"], kind, namespaced=entry.get("scope") == "Namespaced")
    found.setdefault((group, kind), resource)
