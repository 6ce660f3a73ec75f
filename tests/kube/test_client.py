"""Every verb's request on the wire: what is retried and what is not, deadlines, and the rate limiter's priorities."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from edl.kube.rest.client import Client
from edl.kube.rest.decoding import Bookmark, Event, Malformed
from edl.kube.rest.errors import ApiError, ConnectionLostError, KubeError
from edl.kube.rest.resource import Resource, selector
from edl.kube.rest.transport import DirectTransport, Request, Response
from tests.kube.fake_api import FakeApi, line, refuse, reply, streaming
from tests.kube.scripted import OK, PODS, Call, Script
from tests.kube.things import THINGS, Thing, client_of
from tests.virtual_time import virtual

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
VERBS: list[tuple[str, Call, str, dict[str, str], Any]] = [
    ("get", lambda c: c.get(THINGS, "a", namespace="n"), "GET /apis/test.dev/v1/namespaces/n/things/a", {}, None),
    ("get-core", lambda c: c.get(NODES, "x y"), "GET /api/v1/nodes/x%20y", {}, None),
    (
        "scale",
        lambda c: c.get(PODS, "a", namespace="n", subresource="scale"),
        "GET /api/v1/namespaces/n/pods/a/scale",
        {},
        None,
    ),
    (
        "create",
        lambda c: c.create(PODS, {"x": 1}, namespace="n"),
        "POST /api/v1/namespaces/n/pods",
        {"fieldManager": "edl"},
        {"x": 1},
    ),
    (
        "evict",
        lambda c: c.create(PODS, {"x": 1}, name="a", namespace="n", subresource="eviction"),
        "POST /api/v1/namespaces/n/pods/a/eviction",
        {"fieldManager": "edl"},
        {"x": 1},
    ),
    (
        "replace-status",
        lambda c: c.replace(PODS, "a", {"x": 1}, namespace="n", subresource="status"),
        "PUT /api/v1/namespaces/n/pods/a/status",
        {"fieldManager": "edl"},
        {"x": 1},
    ),
    (
        "patch-json",
        lambda c: c.patch(PODS, "a", [{"op": "remove", "path": "/x"}], kind="json", namespace="n"),
        "PATCH(application/json-patch+json) /api/v1/namespaces/n/pods/a",
        {"fieldManager": "edl"},
        [{"op": "remove", "path": "/x"}],
    ),
    (
        "patch-resize",
        lambda c: c.patch(PODS, "a", {}, kind="strategic", namespace="n", subresource="resize"),
        "PATCH(application/strategic-merge-patch+json) /api/v1/namespaces/n/pods/a/resize",
        {"fieldManager": "edl"},
        {},
    ),
    (
        "apply",
        lambda c: c.apply(NODES, "a", {"x": 1}, field_manager="me", force=False),
        "PATCH(application/apply-patch+yaml) /api/v1/nodes/a",
        {"fieldManager": "me", "force": "false"},
        {"x": 1},
    ),
    (
        "delete",
        lambda c: c.delete(PODS, "a", namespace="n", uid="u", resource_version="5", propagation="Foreground", grace=0),
        "DELETE /api/v1/namespaces/n/pods/a",
        {},
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u", "resourceVersion": "5"},
        },
    ),
    (
        "delete-collection",
        lambda c: c.delete_collection(PODS, namespace="n", labels={"a": "b", "c": "d"}),
        "DELETE /api/v1/namespaces/n/pods",
        {"labelSelector": "a=b,c=d"},
        {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"},
    ),
    ("raw", lambda c: c.raw(Request("GET", "/version", {"q": "1"})), "GET /version", {"q": "1"}, None),
]


@pytest.mark.parametrize(("call", "wanted", "query", "body"), [pytest.param(*case[1:], id=case[0]) for case in VERBS])
@virtual
async def test_what_a_verb_sends(call: Call, wanted: str, query: dict[str, str], body: Any) -> None:
    server = Script(OK)
    await call(server.client)
    (sent,) = server.requests
    kind = f"({sent.content_type})" if sent.method == "PATCH" else ""
    assert f"{sent.method}{kind} {sent.path}" == wanted
    assert dict(sent.query) == query
    assert (json.loads(sent.body) if sent.body else None) == body


@virtual
async def test_answers_come_as_the_type_asked_for() -> None:
    client = Script(OK).client
    assert await client.get(THINGS, "a", namespace="n") == {"metadata": {"name": "a"}, "value": 7}
    thing = await client.get(THINGS, "a", namespace="n", type=Thing)
    assert (thing.metadata.name, thing.value) == ("a", 7)
    assert (await client.patch(THINGS, "a", thing, namespace="n", type=Thing)).value == 7


@virtual
async def test_an_answer_of_another_shape_says_where() -> None:
    client = Script(reply({"metadata": {"name": "a"}, "value": "seven"})).client
    with pytest.raises(KubeError, match=r"GET .*/things/a.*value"):
        await client.get(THINGS, "a", namespace="n", type=Thing)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "a"}, "namespace is required"),
        ({"name": "", "namespace": "n"}, "name is empty"),
        ({"namespace": "n", "subresource": "status"}, "needs the name"),
    ],
)
def test_paths_that_would_address_something_else_are_refused(arguments: dict[str, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        PODS.path(**arguments)


def test_paths_and_selectors() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert NODES.path("ignored", "a") == "/api/v1/nodes/a"
    assert THINGS.api_version == "test.dev/v1"
    assert PODS.path("../x", "a/b") == "/api/v1/namespaces/..%2Fx/pods/a%2Fb"
    assert selector({"a": "b", "c": "d"}) == "a=b,c=d"
    assert selector({}) is selector("") is selector(None) is None
    assert selector("a in (b)") == "a in (b)"


@virtual
async def test_lists_of_one_snapshot() -> None:
    api = FakeApi()
    for number in range(7):
        api.put("things", f"t{number}", value=number)
    client = client_of(api)
    page = await client.list_page(THINGS, limit=3, type=Thing)
    assert (len(page.items), page.version, bool(page.next)) == (3, "107", True)
    everything = await client.list(THINGS, limit=3, type=Thing)
    assert [thing.value for thing in everything.items] == list(range(7))
    assert everything.version == "107"
    assert [len(page.items) async for page in client.pages(THINGS, limit=3)] == [3, 3, 1]


@virtual
async def test_a_list_whose_snapshot_expires_is_read_in_one_piece() -> None:
    api = FakeApi()
    for number in range(4):
        api.put("things", f"t{number}")
    api.next_lists.append(api._list)

    async def expired(request: Request) -> Response:
        return refuse(410, "Expired")

    api.next_lists.append(expired)
    assert len((await client_of(api).list(THINGS, limit=2)).items) == 4
    assert "limit" not in api.requests[-1].query


@virtual
async def test_a_watch_yields_events_bookmarks_and_what_cannot_be_read() -> None:
    good = {"metadata": {"name": "a", "resourceVersion": "5"}, "value": 1}
    bad = {"metadata": {"name": "b", "namespace": "n", "uid": "u", "resourceVersion": "6"}, "value": "text"}
    bookmark = {"kind": "Thing", "metadata": {"resourceVersion": "9"}}
    data = line("ADDED", good) + line("MODIFIED", bad) + line("BOOKMARK", bookmark) + b"\n" + line("DELETED", good)
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    client = Client(DirectTransport(streaming(*pieces)))
    async with aclosing(client.watch(THINGS, resource_version="1", type=Thing)) as changes:
        seen = [change async for batch in changes for change in batch]
    first, second, third, fourth = seen
    assert isinstance(first, Event)
    assert (first.type, first.object.value) == ("ADDED", 1)
    assert isinstance(second, Malformed)
    assert (second.type, second.identity.name, second.identity.resource_version) == ("MODIFIED", "b", "6")
    assert third == Bookmark("9")
    assert isinstance(fourth, Event)
    assert fourth.type == "DELETED"


@virtual
async def test_a_watch_asks_for_what_it_needs() -> None:
    server = Script(Response(200, b""))
    async with aclosing(server.client.watch(PODS, resource_version="7", namespace="n", labels="a=b")) as changes:
        assert [change async for batch in changes for change in batch] == []
    (sent,) = server.requests
    assert dict(sent.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
        "labelSelector": "a=b",
    }


@virtual
async def test_a_watch_that_is_never_answered_ends() -> None:
    started = asyncio.get_running_loop().time()
    with pytest.raises(ConnectionLostError, match="nothing received for 90 s"):
        async with aclosing(Script(None).client.watch(PODS, resource_version="7")) as changes:
            await anext(changes)
    assert asyncio.get_running_loop().time() - started == pytest.approx(90)


@virtual
async def test_a_line_without_end_is_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edl.kube.rest.decoding.LONGEST_LINE", 1000)
    client = Client(DirectTransport(streaming(*[b"x" * 100] * 20)))
    with pytest.raises(ConnectionLostError, match="longer than 1000 bytes"):
        async with aclosing(client.watch(PODS, resource_version="7")) as changes:
            assert [list(batch) async for batch in changes]


@virtual
async def test_a_log_is_streamed_as_it_is() -> None:
    client = Client(DirectTransport(streaming(b"one\n", b"tw", b"o\n")))
    async with aclosing(client.stream(Request("GET", "/api/v1/namespaces/n/pods/a/log"))) as pieces:
        assert b"".join([piece async for piece in pieces]) == b"one\ntwo\n"


async def test_what_is_not_there_is_not_found_and_what_is_denied_is_an_error() -> None:
    api = FakeApi()
    api.put("things", "a", "n")
    client = client_of(api)
    found = await client.find(THINGS, "a", namespace="n")
    assert found is not None
    assert found["metadata"]["name"] == "a"
    assert await client.find(THINGS, "b", namespace="n") is None

    async def denied(request: Request) -> Response:
        return Response(403, json.dumps({"kind": "Status", "code": 403, "reason": "Forbidden"}).encode())

    with pytest.raises(ApiError, match="Forbidden"):
        await Client(DirectTransport(denied)).find(THINGS, "a", namespace="n")
