"""Which handler answers which request. Everything below is independent of HTTP; `http.py` and `direct.py` are the two
ways in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edl.embedded.server import delete, discovery, patch, read, status, write
from edl.embedded.server.call import ANONYMOUS, JSON, Answer, Call, Query, User, resolve
from edl.embedded.server.core import Core, encode
from edl.embedded.server.store import StoreError
from edl.embedded.server.watch import Watch

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})


@dataclass(slots=True)
class Request:
    """What a client sent, before its path is resolved."""

    method: str
    path: str
    query: Query
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    user: User = ANONYMOUS
    user_agent: str = ""


class Api:
    def __init__(self, core: Core) -> None:
        self.core = core

    async def handle(self, request: Request) -> Answer | Watch:
        """Answer, or the Status of what went wrong: never an exception."""
        try:
            return await self._dispatch(request)
        except status.ApiError as error:
            return Answer(error.code, error.body(), headers=error.headers)
        except StoreError as error:
            problem = status.internal(str(error))
            return Answer(problem.code, problem.body())

    async def _dispatch(self, request: Request) -> Answer | Watch:
        found = resolve(self.core.registry, request.path)
        if found is None:
            return self._other(request)
        resource, namespace, name, subresource = found
        call = Call(
            request.method,
            request.path,
            request.query,
            resource,
            namespace,
            name,
            subresource,
            request.body,
            request.content_type,
            request.accept,
            request.user,
            request.user_agent,
        )
        verb = verb_of(call)
        self._authorise(request.user, verb, call)
        return await self._perform(verb, call)

    def _authorise(self, user: User, verb: str, call: Call) -> None:
        """Who has a credential may do everything: RBAC objects are stored and not enforced. Who has none, nothing."""
        if user is not ANONYMOUS:
            return
        where = f' in the namespace "{call.namespace}"' if call.namespace else " at the cluster scope"
        path = f"{call.resource.plural}/{call.subresource}" if call.subresource else call.resource.plural
        why = f'User "{user.name}" cannot {verb} resource "{path}" in API group "{call.resource.group}"{where}'
        if call.name:
            raise status.forbidden(call.resource.group, call.resource.plural, call.name, why)
        text = f"{status.qualified(call.resource.group, call.resource.plural)} is forbidden: {why}"
        raise status.ApiError(
            403,
            "Forbidden",
            text,
            {
                key: value
                for key, value in {"group": call.resource.group, "kind": call.resource.plural}.items()
                if value
            },
        )

    async def _perform(self, verb: str, call: Call) -> Answer | Watch:
        store = self.core.store
        if call.subresource:
            allowed = call.resource.subresource(call.subresource)
            assert allowed is not None
            if verb not in allowed.verbs:
                raise status.method_not_allowed()
        elif verb not in call.resource.verbs:
            raise status.method_not_allowed()
        match verb:
            case "get":
                return read.get(store, call)
            case "list":
                return read.list_objects(store, call)
            case "watch":
                return read.watch(store, call)
            case "create":
                return await write.create(self.core, call)
            case "update":
                return await write.replace(self.core, call)
            case "patch":
                return await self._patch(call)
            case "delete":
                return await delete.delete(self.core, call)
            case _:
                return await delete.delete_collection(self.core, call)

    async def _patch(self, call: Call) -> Answer:
        media = call.content_type.partition(";")[0].strip()
        if media == patch.JSON_PATCH:
            return await write.update(self.core, call, lambda present: patch.json_patch(present, call.body))
        if media in (patch.MERGE_PATCH, patch.STRATEGIC_PATCH):
            change = patch.decode_merge(call.body)
            return await write.update(self.core, call, lambda present: patch.merge(present, change))
        raise status.unsupported_media_type((patch.JSON_PATCH, patch.MERGE_PATCH, patch.APPLY_PATCH))

    def _other(self, request: Request) -> Answer:
        if request.path in ("/healthz", "/livez", "/readyz"):
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        if request.user is ANONYMOUS and request.path not in PUBLIC:
            why = f'forbidden: User "{request.user.name}" cannot {request.method.lower()} path "{request.path}"'
            raise status.ApiError(403, "Forbidden", why, {})
        answer: dict[str, Any] | None = discovery.answer(self.core.registry, request.path)
        if answer is not None:
            return Answer(200, encode(answer))
        if request.path.startswith(("/api/", "/apis/")):
            raise status.no_such_resource()
        return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"})


def verb_of(call: Call) -> str:
    verb = _VERBS.get(call.method)
    if verb is None:
        raise status.method_not_allowed()
    if verb == "get" and not call.subresource:
        if call.query.flag("watch"):
            return "watch"
        return "get" if call.name else "list"
    if verb == "delete" and not call.name:
        return "deletecollection"
    if (verb in ("update", "patch") and not call.name) or (verb == "create" and call.name and not call.subresource):
        raise status.method_not_allowed()
    return verb
