"""Discovery: which groups, versions and resources there are, in the legacy documents and in the aggregated one."""

from __future__ import annotations

from typing import Any

from edl.embedded.server.registry import Registry, Resource

KUBERNETES = "v1.36.3"


def answer(registry: Registry, path: str) -> dict[str, Any] | None:
    parts = path.strip("/").split("/")
    match parts:
        case ["version"]:
            return version()
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(registry, name) for name in registry.groups() if name],
            }
        case ["api", found] if registry.has_version("", found):
            return _resources(registry, "", found)
        case ["apis", group] if group in registry.groups():
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}
        case ["apis", group, found] if registry.has_version(group, found):
            return _resources(registry, group, found)
    return None


def version() -> dict[str, str]:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{KUBERNETES}+edl",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def _group(registry: Registry, name: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{name}/{found}", "version": found} for found in registry.groups()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(registry: Registry, group: str, found: str) -> dict[str, Any]:
    listed: list[dict[str, Any]] = []
    for resource in registry.of_version(group, found):
        listed.append(_resource(resource))
        listed.extend(_subresources(resource))
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


def _subresources(resource: Resource) -> list[dict[str, Any]]:
    entries = []
    for sub in resource.subresources:
        entry: dict[str, Any] = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
        }
        if sub.group:
            entry |= {"group": sub.group, "version": sub.version}
        entries.append(entry | {"kind": sub.kind, "verbs": list(sub.verbs)})
    return entries
