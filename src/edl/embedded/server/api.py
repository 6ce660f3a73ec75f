"""Which handler answers which request. Everything below is independent of HTTP; `http.py` and `direct.py` are the
ways in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from edl.embedded.server import (
    applying,
    create,
    delete,
    discovery,
    openapi,
    patch,
    podverbs,
    read,
    reviews,
    scale,
    status,
    update,
)
from edl.embedded.server.call import ANONYMOUS, JSON, Answer, Call, Query, User, resolve
from edl.embedded.server.core import Core
from edl.embedded.server.storefile import StoreError
from edl.embedded.server.tokens import Tokens
from edl.embedded.server.watch import Watch

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
_STREAMS = frozenset({"attach", "exec", "log", "portforward"})


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


@dataclass(slots=True)
class NodeStream:
    """A request that a node must answer (logs, exec, attach, port-forward): whoever owns the connection relays it."""

    call: Call


Result = Answer | Watch | NodeStream


class Api:
    def __init__(self, core: Core, tokens: Tokens) -> None:
        self.core = core
        self.tokens = tokens

    async def handle(self, request: Request) -> Result:
        """An answer, or the Status of what went wrong: refusals are not exceptions to the caller."""
        try:
            return await self._dispatch(request)
        except status.ApiError as error:
            return Answer(error.code, error.body(), headers=error.headers)
        except RecursionError:
            problem = status.bad_request("the object provided is unrecognized: exceeded max depth")
            return Answer(problem.code, problem.body())
        except StoreError as error:
            problem = status.internal(str(error))
            return Answer(problem.code, problem.body())

    async def _dispatch(self, request: Request) -> Result:
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
        verb = _verb(call)
        if request.user is ANONYMOUS:
            raise _forbidden(request.user, verb, call)
        _check_verb(verb, call)
        if subresource:
            return await self._subresource(verb, call)
        return await self._perform(verb, call)

    async def _perform(self, verb: str, call: Call) -> Result:
        core = self.core
        match verb:
            case "get":
                return read.get(core.store, call)
            case "list":
                return read.list_objects(core.store, call)
            case "watch":
                return read.watch(core.store, call, core.dice)
            case "create":
                return await self._create(call)
            case "update":
                return await update.replace(core, call)
            case "patch":
                return await self._patch(call)
            case "delete":
                return await delete.delete(core, call)
            case _:
                return await delete.delete_collection(core, call)

    async def _patch(self, call: Call) -> Answer:
        if call.content_type.partition(";")[0].strip() == patch.APPLY_PATCH:
            return await applying.apply_object(self.core, call)
        return await update.patch_object(self.core, call)

    async def _create(self, call: Call) -> Answer:
        if call.resource.group in ("authentication.k8s.io", "authorization.k8s.io"):
            return await reviews.answer(self.core, call, self.tokens)
        if call.resource.plural == "bindings" and not call.resource.group:
            return await podverbs.bind(self.core, call)
        return await create.create(self.core, call)

    async def _subresource(self, verb: str, call: Call) -> Result:
        core = self.core
        if call.subresource in _STREAMS:
            return NodeStream(call)
        if call.subresource == "scale":
            return scale.get(core, call) if verb == "get" else await scale.change(core, call)
        if call.subresource == "token":
            return await reviews.issue_token(core, call, self.tokens)
        handler = _ACTIONS.get(call.subresource)
        if handler is not None and verb != "get":
            return await handler(core, call)
        return await self._perform(verb, call)

    def _other(self, request: Request) -> Answer:
        if request.path in ("/healthz", "/livez", "/readyz"):
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        if request.user is ANONYMOUS and request.path not in _PUBLIC:
            verb = _VERBS.get(request.method, request.method.lower())
            verb = {"GET": "get", "POST": "post", "PUT": "put"}.get(request.method, verb)
            why = f'forbidden: User "{request.user.name}" cannot {verb} path "{request.path}"'
            raise status.ApiError(403, "Forbidden", why, {})
        answer = discovery.answer(self.core.registry, request.path, request.accept)
        if answer is None:
            answer = openapi.answer(self.core.registry, request.path, request.accept)
        if answer is not None:
            return answer
        if _is_builtin(self.core, request.path):
            raise status.no_such_resource()
        return Answer(404, b"404 page not found\n", "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"})


def _is_builtin(core: Core, path: str) -> bool:
    """Below a built-in group a wrong path gets a Status, elsewhere plain text: two servers are joined in a real one."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        return len(parts) > 1
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
    known = [entry for entry in core.registry if entry.group == group] if group else []
    return bool(known) and known[0].custom is None


_ACTIONS: dict[str, Callable[[Core, Call], Awaitable[Answer]]] = {
    "binding": podverbs.bind,
    "eviction": podverbs.evict,
    "finalize": podverbs.finalize,
    "resize": podverbs.resize,
}


def _verb(call: Call) -> str:
    verb = _VERBS.get(call.method)
    if verb is None:
        raise status.method_not_allowed()
    if verb == "get" and not call.subresource and not call.name:
        return "watch" if call.query.flag("watch") else "list"
    if verb == "delete" and not call.name:
        return "deletecollection"
    return verb


def _check_verb(verb: str, call: Call) -> None:
    allowed = call.resource.verbs
    if call.subresource:
        subresource = call.resource.subresource(call.subresource)
        allowed = subresource.verbs if subresource is not None else ()
    whole = not call.name and verb in ("update", "patch")
    named = bool(call.name) and verb == "create" and not call.subresource
    nowhere = verb in ("create", "deletecollection") and call.resource.namespaced and not call.namespace
    if verb not in allowed or whole or named or nowhere:
        raise status.method_not_allowed()


def _forbidden(user: User, verb: str, call: Call) -> status.ApiError:
    """RBAC is not enforced: who has a credential may do everything, who has none nothing."""
    resource = call.resource
    namespace = call.namespace or (call.name if resource.storage == "/namespaces" else "")
    where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
    path = f"{resource.plural}/{call.subresource}" if call.subresource else resource.plural
    why = f'User "{user.name}" cannot {verb} resource "{path}" in API group "{resource.group}"{where}'
    if call.name:
        return status.forbidden(resource.group, resource.plural, call.name, why)
    details = {"group": resource.group, "kind": resource.plural}
    text = f"{status.qualified(resource.group, resource.plural)} is forbidden: {why}"
    return status.ApiError(403, "Forbidden", text, {key: value for key, value in details.items() if value})
