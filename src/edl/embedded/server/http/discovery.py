"""API discovery: groups, versions and resources, as the legacy documents and as the aggregated one."""

from typing import Any

from edl.api.kubernetes.version import NEWEST
from edl.embedded.server.core import encode
from edl.embedded.server.crds.custom import version_priority
from edl.embedded.server.registry import Registry, Resource, Subresource
from edl.embedded.server.verbs.call import Response

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def respond(registry: Registry, path: str, accept: str) -> Response | None:
    parts = path.strip("/").split("/")
    if parts in (["api"], ["apis"]) and _AGGREGATED in accept.replace(" ", ""):
        names = [""] if parts == ["api"] else [name for name in registry.groups() if name]
        items = [_group_discovery(registry, name) for name in names]
        body = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}
        return Response(200, encode(body), _AGGREGATED)
    document = _legacy(registry, parts)
    return Response(200, encode(document)) if document is not None else None


def _legacy(registry: Registry, parts: list[str]) -> dict[str, Any] | None:
    match parts:
        case ["version"]:
            return version()
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = [_group(registry, name) for name in registry.groups() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["api", found] if registry.has_version("", found):
            return _resources(registry, "", found)
        case ["apis", group] if group in registry.groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}
        case ["apis", group, found] if registry.has_version(group, found):
            return _resources(registry, group, found)
        case [""]:
            return {"paths": sorted(_paths(registry))}
    return None


def version() -> dict[str, str]:
    major, minor, _ = NEWEST.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{NEWEST}+edl",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def _paths(registry: Registry) -> set[str]:
    paths = {"/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"}
    for group, versions in registry.groups().items():
        if group:
            paths |= {f"/apis/{group}", *(f"/apis/{group}/{found}" for found in versions)}
    return paths


def _versions(registry: Registry, name: str) -> list[str]:
    return sorted(registry.groups()[name], key=version_priority)


def _group(registry: Registry, name: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{name}/{found}", "version": found} for found in _versions(registry, name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(registry: Registry, group: str, found: str) -> dict[str, Any]:
    listed: list[dict[str, Any]] = []
    for resource in registry.of_version(group, found):
        listed.append(_resource(resource))
        listed.extend(_subresource(resource, sub) for sub in resource.subresources)
    group_version = f"{group}/{found}" if group else found
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def _resource(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _subresource(resource: Resource, sub: Subresource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if sub.group:
        entry |= {"group": sub.group, "version": sub.version}
    return entry | {"kind": sub.kind, "verbs": list(sub.verbs)}


def _group_discovery(registry: Registry, name: str) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name} if name else {}
    versions = [
        {
            "version": found,
            "freshness": "Current",
            "resources": [_resource_discovery(resource) for resource in registry.of_version(name, found)],
        }
        for found in _versions(registry, name)
    ]
    return {"metadata": {**meta, "creationTimestamp": None}, "versions": versions}


def _response_kind(resource: Resource, group: str, version: str, kind: str) -> dict[str, str]:
    """Built-in resources leave group and version empty where they are the document's own; custom ones name them."""
    if resource.custom is not None and not version:
        group, version = resource.group, resource.version
    return {"group": group, "version": version, "kind": kind}


def _resource_discovery(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, "", "", resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(resource, sub.group, sub.version, sub.kind),
                "verbs": list(sub.verbs),
            }
            for sub in resource.subresources
        ]
    return entry
