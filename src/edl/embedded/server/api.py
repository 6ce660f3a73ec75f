"""Dispatches a request to its handler. Independent of HTTP: `http/listener.py` and `http/direct.py` call it."""

from collections.abc import Awaitable, Callable

import msgspec

from edl.embedded.server import status
from edl.embedded.server.authorization import allowed
from edl.embedded.server.core import Core
from edl.embedded.server.http import discovery, openapi
from edl.embedded.server.http.tokens import Tokens
from edl.embedded.server.http.yaml_aside import YamlAside
from edl.embedded.server.storage.store_file import StoreError
from edl.embedded.server.storage.watch import Watch
from edl.embedded.server.verbs import apply_patch, create, delete, patch, pod_subresources, read, reviews, scale, update
from edl.embedded.server.verbs.call import ANONYMOUS, JSON, Call, Query, Response, User, resolve

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
_STREAMS = frozenset({"attach", "exec", "log", "portforward"})


class Request(msgspec.Struct):
    """A request of a client, before its path is resolved."""

    method: str
    path: str
    query: Query
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    user: User = ANONYMOUS
    user_agent: str = ""


class NodeStream(msgspec.Struct):
    """A request for a node (logs, exec, attach, port-forward), which the owner of the connection relays."""

    call: Call


Result = Response | Watch | NodeStream


class Api:
    def __init__(self, core: Core, tokens: Tokens) -> None:
        self.core = core
        self.tokens = tokens
        self._yaml = YamlAside()

    async def handle(self, request: Request) -> Result:
        """The response; a refusal is a response with its Status, not an exception."""
        try:
            result = await self._dispatch(request)
            return await self._yaml.render(result) if isinstance(result, Response) else result
        except status.ApiError as error:
            return Response(error.code, error.body(), headers=error.headers)
        except RecursionError:
            problem = status.bad_request("the object provided is unrecognized: exceeded max depth")
            return Response(problem.code, problem.body())
        except StoreError as error:
            problem = status.internal(str(error))
            return Response(problem.code, problem.body())

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
        if not allowed(request.user, resource, namespace, subresource, self.core.pod_groups):
            raise _forbidden(request.user, verb, call)
        _check_verb(verb, call)
        call.yaml_as_json = await self._yaml.parse(call.body, call.content_type)
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
                return read.watch(core.store, call, core.random)
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

    async def _patch(self, call: Call) -> Response:
        if call.content_type.partition(";")[0].strip() == patch.APPLY_PATCH:
            return await apply_patch.apply_object(self.core, call)
        return await update.patch_object(self.core, call)

    async def _create(self, call: Call) -> Response:
        if call.resource.group in ("authentication.k8s.io", "authorization.k8s.io"):
            return await reviews.respond(self.core, call, self.tokens)
        if call.resource.plural == "bindings" and not call.resource.group:
            return await pod_subresources.bind(self.core, call)
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

    def _other(self, request: Request) -> Response:
        if request.path in ("/healthz", "/livez", "/readyz"):
            return Response(200, b"ok", "text/plain; charset=utf-8")
        if request.user is ANONYMOUS and request.path not in _PUBLIC:
            verb = _VERBS.get(request.method, request.method.lower())
            verb = {"GET": "get", "POST": "post", "PUT": "put"}.get(request.method, verb)
            why = f'forbidden: User "{request.user.name}" cannot {verb} path "{request.path}"'
            raise status.ApiError(403, "Forbidden", why, {})
        response = discovery.respond(self.core.registry, request.path, request.accept)
        if response is None:
            response = openapi.respond(self.core.registry, request.path, request.accept)
        if response is not None:
            return response
        if _is_builtin(self.core, request.path):
            raise status.no_such_resource()
        return Response(
            404, b"404 page not found\n", "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"}
        )


def _is_builtin(core: Core, path: str) -> bool:
    """A wrong path below a built-in group gets a Status, elsewhere plain text: a real server joins two servers."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        return len(parts) > 1
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
    known = [entry for entry in core.registry if entry.group == group] if group else []
    return bool(known) and known[0].custom is None


_ACTIONS: dict[str, Callable[[Core, Call], Awaitable[Response]]] = {
    "binding": pod_subresources.bind,
    "eviction": pod_subresources.evict,
    "finalize": pod_subresources.finalize,
    "resize": pod_subresources.resize,
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
    """In the words of RBAC, which is not enforced; the rule is in `authorization`."""
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
