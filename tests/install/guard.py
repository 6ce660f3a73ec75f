"""A transport that lets through what the operator's roles allow and refuses the rest, as an API server with RBAC does.

The embedded API server enforces no RBAC; this does. A request beyond the permissions fails the test at once.
"""

import contextlib
import json
import re
from collections.abc import Collection

from edl.install.permissions import Permission, cluster_permissions, limited_permissions, namespace_permissions
from edl.kube.rest.transport import Request, Response, Transport
from edl.operator.settings import NAMESPACE

_DISCOVERY = re.compile(r"/api(/v1)?|/apis(/[^/]+){0,2}|/openapi/v3/.+")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Guard:
    """`namespaces`: those that the operator is limited to; none: it is not. `permissions`: of another account."""

    def __init__(
        self, inner: Transport, namespaces: Collection[str] = (), permissions: Collection[Permission] | None = None
    ) -> None:
        self._inner, self._namespaces, self._permissions = inner, namespaces, permissions
        self.used: set[tuple[str, str, str]] = set()
        self.refused: list[str] = []

    async def request(self, request: Request) -> Response:
        return self._refusal(request) or await self._inner.request(request)

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[Response]:
        assert self._refusal(request) is None, f"not allowed: {self.refused}"
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()

    def _refusal(self, request: Request) -> Response | None:
        if request.path == "/version" or _DISCOVERY.fullmatch(request.path):
            return None  # open to whoever has an account
        group, resource, namespace, name = _target(request.path)
        verb = _verb(request, name)
        permissions = self._permissions or [
            *cluster_permissions(NAMESPACE, limited=bool(self._namespaces)),
            *(namespace_permissions() if namespace == NAMESPACE else ()),
            *(limited_permissions() if namespace in self._namespaces else ()),
        ]
        if any(_allows(permission, group, resource, verb, _named(request, name)) for permission in permissions):
            self.used.add((group, resource, verb))
            return None
        self.refused.append(f"{verb} {group}/{resource} {name} in {namespace}")
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": self.refused[-1]}
        return Response(403, json.dumps(status).encode(), {})


def _target(path: str) -> tuple[str, str, str, str]:
    """Group, resource with the part asked for, namespace and name."""
    steps = path.strip("/").split("/")
    group, steps = ("", steps[2:]) if steps[0] == "api" else (steps[1], steps[3:])
    namespace = ""
    if steps[0] == "namespaces" and len(steps) > 2:
        namespace, steps = steps[1], steps[2:]
    part = f"/{steps[2]}" if len(steps) > 2 else ""
    return group, steps[0] + part, namespace, steps[1] if len(steps) > 1 else ""


def _verb(request: Request, name: str) -> str:
    if request.method != "GET":
        return _VERBS[request.method]
    if request.query.get("watch") in ("1", "true"):
        return "watch"
    return "get" if name else "list"


def _named(request: Request, name: str) -> str:
    """A watch of one object names it by a field."""
    return name or str(request.query.get("fieldSelector", "")).removeprefix("metadata.name=")


def _allows(permission: Permission, group: str, resource: str, verb: str, name: str) -> bool:
    inside = permission.group == group and resource in permission.resources and verb in permission.verbs
    return inside and (not permission.names or name in permission.names)
