"""The path of a kind of object in the Kubernetes API. No I/O, no discovery."""

import re
from urllib.parse import quote

import msgspec

_PLAIN = re.compile(r"[A-Za-z0-9._~-]*\Z").match  # nearly all names are, and quoting costs more than the rest


class Resource(msgspec.Struct, frozen=True):
    """One kind as the REST API names it. The core group is the empty string."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of one object, of a namespace's collection, or (neither given) of the whole collection."""
        if name is not None and not name:
            raise ValueError(f"{self.kind}: name is empty; an empty name would address the whole collection")
        if self.namespaced and name and not namespace:
            raise ValueError(f"{self.kind} {name!r}: namespace is required, the kind is namespaced")
        if subresource and not name:
            raise ValueError(f"{self.kind}: subresource {subresource!r} needs the name of an object")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        path = "/" + "/".join(part if _PLAIN(part) else quote(part, safe="") for part in parts)
        return f"{path}/{quote(subresource)}" if subresource else path


def selector(wanted: "str | dict[str, str] | None") -> str | None:
    """A label or field selector from its text or from equalities; None and {} select everything."""
    if isinstance(wanted, dict):
        return ",".join(f"{key}={value}" for key, value in wanted.items()) or None
    return wanted or None
