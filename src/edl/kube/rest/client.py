"""The Kubernetes REST API, one method per verb, typed by the caller.

Every call takes `type`, a msgspec Struct with the fields wanted (default: dict), and has a deadline; `retries` says
what is tried again. No cache, no discovery.
"""

import random
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Literal, TypedDict

import msgspec
from typing_extensions import Unpack

from edl.kube.rest.decoding import Bookmark, Event, LineDecoder, Malformed, Page, T, decode, decode_page, whole_lines
from edl.kube.rest.errors import ApiError, ConnectionLostError, UnexpectedAnswerError
from edl.kube.rest.rate_limiter import RateLimiter, RequestPriority
from edl.kube.rest.resource import Resource, selector
from edl.kube.rest.retries import APPLY_PATCH, MERGE_PATCH, RetryingCaller
from edl.kube.rest.transport import JSON, Request, Response, Transport

Change = Event[T] | Bookmark | Malformed
PatchKind = Literal["merge", "json", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]

_DICT: Any = dict
_PATCHES = {
    "merge": MERGE_PATCH,
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": APPLY_PATCH,  # JSON is YAML
}


class Scope(TypedDict, total=False):
    """Which objects of a kind. No namespace means all of them; selectors are text or equalities."""

    namespace: str | None
    labels: str | dict[str, str] | None
    fields: str | dict[str, str] | None


class CallOptions(TypedDict, total=False):
    """The namespace of one object, a subresource of it (status, scale, resize, eviction, binding...), the deadline of
    the call in seconds, and its priority in the rate limiter."""

    namespace: str | None
    subresource: str | None
    timeout: float
    priority: RequestPriority


class ListOptions(Scope, total=False):
    """`limit`: objects per page, None for all in one. `timeout`: the deadline of each page in seconds."""

    limit: int | None
    timeout: float


class WatchOptions(Scope, total=False):
    """The server ends a watch after `seconds`; one that is silent for `idle` seconds is left."""

    seconds: float
    idle: float


class Client:
    """`timeout` is the default deadline of a call in seconds; `field_manager` signs every write."""

    def __init__(
        self,
        transport: Transport,
        *,
        rate_limiter: RateLimiter | None = None,
        timeout: float = 30.0,
        field_manager: str = "edl",
        rng: random.Random | None = None,
    ) -> None:
        self.transport = transport
        self._caller = RetryingCaller(transport, rate_limiter or RateLimiter(), timeout, rng or random.Random())
        self._manager = field_manager

    async def get(self, resource: Resource, name: str, *, type: type[T] = _DICT, **options: Unpack[CallOptions]) -> T:
        return await self._one(Request("GET", _path(resource, name, options)), type, options)

    async def find(
        self, resource: Resource, name: str, *, type: type[T] = _DICT, **options: Unpack[CallOptions]
    ) -> T | None:
        """As `get`, None if it is not there, or if nobody knows its kind."""
        try:
            return await self.get(resource, name, type=type, **options)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def list_page(
        self, resource: Resource, *, continue_: str = "", type: type[T] = _DICT, **options: Unpack[ListOptions]
    ) -> Page[T]:
        """One page: of the newest state, or (with `continue_`) of the snapshot that the first page was of."""
        paging = {"limit": str(options.get("limit", 500) or ""), "continue": continue_}
        query = {**_select(options), **{key: value for key, value in paging.items() if value}}
        request = Request("GET", resource.path(options.get("namespace")), query)
        response = await self._caller.call(request, timeout=options.get("timeout"))
        with _expecting(request, type):
            return decode_page(response.body, type)

    async def pages(
        self, resource: Resource, *, type: type[T] = _DICT, **options: Unpack[ListOptions]
    ) -> AsyncGenerator[Page[T], None]:
        """All pages of one snapshot. An error, such as ApiError.is_gone: what was read so far is not the whole."""
        token = version = ""
        while True:
            page = await self.list_page(resource, continue_=token, type=type, **options)
            if page.version != (version or page.version):
                raise ConnectionLostError(f"{resource.plural}: a page of version {page.version} in a list of {version}")
            version = page.version
            yield page
            token = page.next
            if not token:
                return

    async def list(self, resource: Resource, *, type: type[T] = _DICT, **options: Unpack[ListOptions]) -> Page[T]:
        """Everything, of one snapshot (if that expires, once more in one piece)."""
        items: list[T] = []
        malformed: list[Malformed] = []
        version = ""
        try:
            async for page in self.pages(resource, type=type, **options):
                version = page.version
                items += page.items
                malformed += page.malformed
        except ApiError as error:
            if not error.is_gone:
                raise
            options["limit"] = None
            return await self.list_page(resource, type=type, **options)
        return Page(items, version, malformed=malformed)

    async def create(
        self,
        resource: Resource,
        body: Any,
        *,
        name: str | None = None,
        type: type[T] = _DICT,
        **options: Unpack[CallOptions],
    ) -> T:
        """`name` and `subresource` only for a POST to a part (eviction, binding, token) of an object that exists."""
        priority = RequestPriority.URGENT if options.get("subresource") == "eviction" else RequestPriority.NORMAL
        return await self._one(self._write("POST", _path(resource, name, options), body), type, options, priority)

    async def replace(
        self, resource: Resource, name: str, body: Any, *, type: type[T] = _DICT, **options: Unpack[CallOptions]
    ) -> T:
        """The body is the whole object (one decoded into fewer fields would erase the rest), with a resourceVersion."""
        return await self._one(self._write("PUT", _path(resource, name, options), body), type, options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        kind: PatchKind = "merge",
        type: type[T] = _DICT,
        **options: Unpack[CallOptions],
    ) -> T:
        """To overwrite nothing unseen, a patch carries metadata.resourceVersion or a JSON Patch test."""
        request = self._write("PATCH", _path(resource, name, options), patch, content_type=_PATCHES[kind])
        return await self._one(request, type, options)

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: Any,
        *,
        force: bool = True,
        field_manager: str | None = None,
        type: type[T] = _DICT,
        **options: Unpack[CallOptions],
    ) -> T:
        """Server-side apply: the body is all that this field manager wants; what it no longer names is removed."""
        query = {"fieldManager": field_manager or self._manager, "force": "true" if force else "false"}
        request = self._write("PATCH", _path(resource, name, options), body, query, content_type=_PATCHES["apply"])
        return await self._one(request, type, options)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation = "Background",
        grace: int | None = None,
        **options: Unpack[CallOptions],
    ) -> dict[str, Any]:
        """Answers a Status when the object is gone, the object itself while finalizers or a grace period hold it."""
        body = _delete_options(propagation, grace, uid=uid, resourceVersion=resource_version)
        request = self._write("DELETE", _path(resource, name, options), body, {})
        return await self._one(request, _DICT, options, RequestPriority.URGENT)

    async def delete_collection(
        self,
        resource: Resource,
        *,
        propagation: Propagation = "Background",
        grace: int | None = None,
        timeout: float | None = None,
        **scope: Unpack[Scope],
    ) -> None:
        body = _delete_options(propagation, grace)
        request = self._write("DELETE", resource.path(scope.get("namespace")), body, _select(scope))
        await self._caller.call(request, RequestPriority.URGENT, timeout)

    async def watch(
        self, resource: Resource, *, resource_version: str, type: type[T] = _DICT, **options: Unpack[WatchOptions]
    ) -> AsyncGenerator[Iterable[Change[T]], None]:
        """Changes after `resource_version`, in batches as they arrive (the first is empty: the stream has begun),
        until the server ends the stream.

        ApiError: the server refused or sent an ERROR event (`is_gone`: list again). ConnectionLostError: the stream
        broke, or nothing came for too long. What was yielded is complete and in order. Use `contextlib.aclosing`.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(options.get("seconds", 300)))),
            **_select(options),
        }
        decoder = LineDecoder(type)
        request = Request("GET", resource.path(options.get("namespace")), query)
        chunks = self.stream(request, idle=options.get("idle", 90.0))
        async with aclosing(chunks):
            async for data in whole_lines(chunks):
                yield decoder.decode(data)

    def stream(self, request: Request, *, idle: float = 90.0) -> AsyncGenerator[bytes, None]:
        """The pieces of a streamed answer (a watch, a log) as they come, after an empty one: it has begun. No retry."""
        return self._caller.stream(request, idle)

    async def raw(
        self, request: Request, *, timeout: float | None = None, priority: RequestPriority = RequestPriority.NORMAL
    ) -> Response:
        """Whatever the others do not offer."""
        return await self._caller.call(request, priority, timeout)

    async def close(self) -> None:
        await self._caller.close()

    def _write(
        self, method: str, path: str, body: Any, query: Mapping[str, str] | None = None, *, content_type: str = JSON
    ) -> Request:
        signed = {"fieldManager": self._manager} if query is None else query
        return Request(method, path, signed, msgspec.json.encode(body), content_type)

    async def _one(
        self, request: Request, type: type[T], options: CallOptions, priority: RequestPriority = RequestPriority.NORMAL
    ) -> T:
        response = await self._caller.call(request, options.get("priority", priority), options.get("timeout"))
        with _expecting(request, type):
            return decode(response.body, type)


@contextmanager
def _expecting(request: Request, wanted: type[object]) -> Iterator[None]:
    try:
        yield
    except msgspec.DecodeError as error:
        raise UnexpectedAnswerError(f"{request}: the answer is no {wanted.__name__}: {error}") from error


def _path(resource: Resource, name: str | None, options: CallOptions) -> str:
    return resource.path(options.get("namespace"), name, options.get("subresource"))


def _select(scope: Scope) -> dict[str, str]:
    wanted = {"labelSelector": selector(scope.get("labels")), "fieldSelector": selector(scope.get("fields"))}
    return {key: text for key, text in wanted.items() if text}


def _delete_options(propagation: Propagation, grace: int | None, **preconditions: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    if grace is not None:
        body["gracePeriodSeconds"] = grace
    held = {key: value for key, value in preconditions.items() if value}
    return {**body, "preconditions": held} if held else body
