"""get, list and watch, with the semantics of resourceVersion, limit and continue that clients rely on."""

import base64
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import msgspec

from edl.embedded.server import selectors, status
from edl.embedded.server.http.media import negotiate
from edl.embedded.server.http.render import LIST_SHAPES, OBJECT_SHAPES, Renderer
from edl.embedded.server.selectors import Selector
from edl.embedded.server.storage.revisions import CompactedError, Entry, Key
from edl.embedded.server.storage.store import Store
from edl.embedded.server.storage.watch import Watch
from edl.embedded.server.tables.columns import columns_for
from edl.embedded.server.verbs.call import Call, Response


def renderer(call: Call, *, many: bool = False) -> Renderer:
    form = negotiate(call.accept, LIST_SHAPES if many else OBJECT_SHAPES)
    columns = columns_for(call.resource) if form.shape == "Table" else None
    return Renderer(call.resource, form, columns, call.query.get("includeObject") or "Metadata")


def get(store: Store, call: Call) -> Response:
    rendering = renderer(call)
    wanted = _version(call)
    if wanted > store.rv:
        raise status.too_large_version(wanted, store.rv)
    entry = store.get(call.resource.storage, call.key)
    if entry is None:
        raise call.not_found()
    return Response(200, rendering.object(entry), rendering.form.content_type)


def list_objects(store: Store, call: Call) -> Response:
    rendering = renderer(call, many=True)
    selector = selectors.parse(call.resource, call.query.get("labelSelector"), call.query.get("fieldSelector"))
    page = _Page.of(store, call)
    found = _select(_entries(store, call, selector, page), selector)
    entries = list(islice(found, page.limit + 1 if page.limit else None))
    meta: dict[str, Any] = {"resourceVersion": str(page.rv)}
    if page.limit and len(entries) > page.limit:
        entries.pop()
        meta["continue"] = encode_continue(page.rv, (entries[-1].namespace, entries[-1].name))
        if selector.everything:
            meta["remainingItemCount"] = 1 + sum(1 for _ in found)
    return Response(200, rendering.list(entries, meta), rendering.form.content_type)


def watch(store: Store, call: Call, random: Random) -> Watch:
    rendering = renderer(call, many=True)
    selector = selectors.parse(call.resource, call.query.get("labelSelector"), call.query.get("fieldSelector"))
    seconds = call.query.number("timeoutSeconds") or random.uniform(1800, 3600)
    initial = call.query.get("sendInitialEvents")
    _check_watch(call, initial)
    version = _version(call, watching=True)
    from_state = initial == "true" or (initial != "false" and version == 0)
    return Watch(
        store=store,
        renderer=rendering,
        namespace=call.namespace,
        selector=selector,
        since=None if from_state else version or store.rv,
        bookmarks=call.query.flag("allowWatchBookmarks"),
        initial_end=initial == "true" and call.query.flag("allowWatchBookmarks"),
        seconds=seconds,
    )


def _check_watch(call: Call, initial: str) -> None:
    match = call.query.get("resourceVersionMatch")
    why = ""
    if initial and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _options_error(call, status.Cause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch"))
    if match and not initial:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _options_error(call, status.Cause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch"))


def _options_error(call: Call, cause: status.Cause) -> status.ApiError:
    return status.invalid("meta.k8s.io", "ListOptions", "", [cause])


def _version(call: Call, *, watching: bool = False) -> int:
    text = call.query.get("resourceVersion")
    if text and not text.isdigit():
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise status.ApiError(500, "", why) if watching else status.bad_request(f"invalid resource version: {why}")
    return int(text or 0)


class _Page(msgspec.Struct):
    """The snapshot that a list reads, the key it continues after, and the most objects it returns (0 = all)."""

    rv: int
    exact: bool
    after: Key | None
    limit: int

    @classmethod
    def of(cls, store: Store, call: Call) -> "_Page":
        query = call.query
        limit = max(query.number("limit") or 0, 0)
        version, match, token = query.get("resourceVersion"), query.get("resourceVersionMatch"), query.get("continue")
        _check_match(call, version, match, token)
        if "sendInitialEvents" in query:
            cause = status.Cause(
                "FieldValueForbidden", "Forbidden: sendInitialEvents is forbidden for list", "sendInitialEvents"
            )
            raise _options_error(call, cause)
        if token:
            rv, after = decode_continue(token)
            if 0 < rv < store.compacted:
                raise status.continue_expired(encode_continue(-1, after))
            return cls(rv if rv > 0 else store.rv, rv > 0, after, limit)
        number = _version(call)
        if number > store.rv:
            raise status.too_large_version(number, store.rv)
        if number and (match == "Exact" or (limit and not match)):
            if number < store.compacted:
                raise status.expired(number, store.compacted)
            return cls(number, True, None, limit)
        return cls(store.rv, False, None, limit)


def _check_match(call: Call, version: str, match: str, token: str) -> None:
    if token and version and version != "0":
        raise status.bad_request("specifying resource version is not allowed when using continue")
    if not match:
        return
    why = ""
    if not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif token:
        why = "resourceVersionMatch is forbidden when continue is provided"
    elif match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if why:
        raise _options_error(call, status.Cause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch"))
    if match not in ("Exact", "NotOlderThan"):
        message = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise _options_error(call, status.Cause("FieldValueNotSupported", message, "resourceVersionMatch"))


def _entries(store: Store, call: Call, selector: Selector, page: _Page) -> Iterator[Entry]:
    storage = call.resource.storage
    if selector.name and not page.exact and (call.namespace or not call.resource.namespaced):
        entry = store.get(storage, (call.namespace, selector.name))
        return iter(
            [entry] if entry is not None and (page.after is None or page.after < (entry.namespace, entry.name)) else []
        )
    if not page.exact:
        return store.entries(storage, call.namespace, after=page.after)
    try:
        return store.entries_at(storage, page.rv, call.namespace, after=page.after)
    except CompactedError:
        raise status.expired(page.rv, store.compacted) from None


def _select(entries: Iterator[Entry], selector: Selector) -> Iterator[Entry]:
    return entries if selector.everything else (entry for entry in entries if selector.matches(entry))


class _Token(msgspec.Struct):
    v: str = "meta.k8s.io/v1"
    rv: int = 0
    start: str = ""


def encode_continue(rv: int, last: Key) -> str:
    start = "/".join(filter(None, last)) + "\0"
    return base64.urlsafe_b64encode(msgspec.json.encode(_Token(rv=rv, start=start))).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, Key]:
    raw = b""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        decoded = msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.MsgspecError):
        first = raw[:1].decode(errors="replace") if raw else ""
        why = f"invalid character '{first}' looking for beginning of value" if first else "unexpected end of JSON input"
        raise status.bad_request(f"invalid continue token: continue key is not valid: {why}") from None
    if not decoded.start.endswith("\0") or decoded.rv == 0:
        why = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        raise status.bad_request(f"invalid continue token: continue key is not valid: {why}")
    namespace, _, name = decoded.start.rstrip("\0").rpartition("/")
    return decoded.rv, (namespace, name)
