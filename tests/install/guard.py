"""A transport that lets through what the operator's roles allow and refuses the rest, as an API server with RBAC does.

The embedded API server enforces no rights; this holds any story to them. Who asks for more fails the story at once.
"""

import contextlib
import json
import re

from edl.install.rights import Right, cluster_rights, own_rights
from edl.kube.transport import Request, Response, Transport
from edl.operator.settings import NAMESPACE

_DISCOVERY = re.compile(r"/api(/v1)?|/apis(/[^/]+){0,2}")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Guard:
    def __init__(self, inner: Transport) -> None:
        self._inner = inner
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
        rights = [*cluster_rights(NAMESPACE), *(own_rights() if namespace == NAMESPACE else ())]
        if any(_allows(right, group, resource, verb, _named(request, name)) for right in rights):
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


def _allows(right: Right, group: str, resource: str, verb: str, name: str) -> bool:
    inside = right.group == group and resource in right.resources and verb in right.verbs
    return inside and (not right.names or name in right.names)
