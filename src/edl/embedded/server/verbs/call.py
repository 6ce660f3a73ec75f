"""Requests and responses as the handlers see them. No HTTP library here, so that a simulation can call them too."""

from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec

from edl.embedded.server import status
from edl.embedded.server.registry import Registry, Resource

JSON = "application/json"


class User(msgspec.Struct, frozen=True):
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


ADMIN = User("admin", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Query:
    """The query of a URL. A flag without a value is true, as in Kubernetes."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, list[str]]) -> None:
        self._values = values

    def get(self, name: str) -> str:
        values = self._values.get(name)
        return values[0] if values else ""

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def flag(self, name: str) -> bool:
        values = self._values.get(name)
        return values is not None and values[0].lower() not in ("false", "0")

    def number(self, name: str) -> int | None:
        text = self.get(name)
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    def __contains__(self, name: str) -> bool:
        return name in self._values


_EMPTY = Query({})


@lru_cache(maxsize=512)
def _cached_query(text: str) -> Query:
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        values.setdefault(name, []).append(value)
    return Query(values)


def parse_query(text: str) -> Query:
    return _cached_query(text) if text else _EMPTY


class Call(msgspec.Struct):
    """A request with its path resolved. `namespace` is empty for cluster-wide resources and for all namespaces."""

    method: str
    path: str
    query: Query
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    user: User = ADMIN
    user_agent: str = ""
    warnings: list[str] = []
    yaml_as_json: bytes = b""
    """The body in JSON, once it was parsed as YAML."""

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.name)

    @property
    def document(self) -> bytes:
        """The body as it was written, or its JSON when that was YAML."""
        return self.yaml_as_json or self.body

    @property
    def manager(self) -> str:
        """The field manager: the one given, else the program name in the User-Agent."""
        return self.query.get("fieldManager") or self.user_agent.split("/", 1)[0][:128] or "unknown"

    @property
    def dry_run(self) -> bool:
        values = self.query.all("dryRun")
        if any(value != "All" for value in values):
            shown = ",".join(f'"{value}"' for value in values)
            text = f'Unsupported value: [{shown}]: supported values: "All"'
            options = {"POST": "CreateOptions", "PUT": "UpdateOptions", "DELETE": "DeleteOptions"}.get(self.method)
            cause = status.Cause("FieldValueNotSupported", text, "dryRun")
            raise status.invalid("meta.k8s.io", options or "PatchOptions", "", [cause])
        return bool(values)

    def not_found(self, name: str | None = None) -> status.ApiError:
        return status.not_found(self.resource.group, self.resource.plural, self.name if name is None else name)


class Response(msgspec.Struct):
    code: int
    body: bytes
    content_type: str = JSON
    headers: dict[str, str] = {}
    warnings: list[str] = []


def split_path(path: str) -> list[str]:
    return (unquote(path) if "%" in path else path).strip("/").split("/")


def resolve(registry: Registry, path: str) -> tuple[Resource, str, str, str] | None:
    """(resource, namespace, name, subresource) of a path below /api or /apis; None when nothing is served there."""
    parts = split_path(path)
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if rest[0] == "namespaces" and len(rest) > 2:
        entry = registry.find(group, version, rest[2])
        if entry is not None and entry.namespaced:
            return _place(entry, rest[1], rest[3:])
    entry = registry.find(group, version, rest[0])
    if entry is None:
        return None
    return _place(entry, "", rest[1:])


def _place(entry: Resource, namespace: str, rest: list[str]) -> tuple[Resource, str, str, str] | None:
    if len(rest) > 2 or (rest and entry.namespaced and not namespace):
        return None
    name = rest[0] if rest else ""
    subresource = rest[1] if len(rest) > 1 else ""
    if subresource and entry.subresource(subresource) is None:
        return None
    return entry, namespace, name, subresource


Object = dict[str, Any]
"""A decoded Kubernetes object."""
