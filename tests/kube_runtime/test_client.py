"""Every verb's request on the wire, what is tried again and what is not, deadlines, and the budget's lanes."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from edl.kube.budget import Budget, Lane
from edl.kube.client import Client
from edl.kube.errors import ApiError, ConnectionLostError, DeadlineExceededError, KubeError
from edl.kube.resource import Resource, selector
from edl.kube.transport import DirectTransport, Request, Response
from edl.kube.wire import Bookmark, Event, Malformed
from tests.kube_runtime.fake_api import FakeApi, line, refuse, reply, status, streaming
from tests.kube_runtime.things import THINGS, Thing, client_of
from tests.virtual_time import virtual

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
Call = Callable[[Client], Awaitable[Any]]


class Script:
    """A server that answers the given answers in order (the last one for ever) and remembers what it was asked."""

    def __init__(self, *answers: Response | Exception | None) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Response)
        return answer

    @property
    def client(self) -> Client:
        return Client(DirectTransport(self), rng=random.Random(1))


OK = reply({"metadata": {"name": "a"}, "value": 7})

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
    ("raw", lambda c: c.raw("GET", "/version", query={"q": "1"}), "GET /version", {"q": "1"}, None),
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


GET: Call = lambda c: c.get(PODS, "a", namespace="n")  # noqa: E731
PUT: Call = lambda c: c.replace(PODS, "a", {}, namespace="n")  # noqa: E731
POST: Call = lambda c: c.create(PODS, {}, namespace="n")  # noqa: E731
DELETE: Call = lambda c: c.delete(PODS, "a", namespace="n")  # noqa: E731
MERGE: Call = lambda c: c.patch(PODS, "a", {}, namespace="n")  # noqa: E731
JSON: Call = lambda c: c.patch(PODS, "a", [], kind="json", namespace="n")  # noqa: E731
APPLY: Call = lambda c: c.apply(PODS, "a", {}, namespace="n")  # noqa: E731
TOO_MANY, BUSY, BROKEN = refuse(429, retry_after="2"), refuse(503, retry_after="2"), refuse(500)
LOST, UNSENT = ConnectionLostError("lost"), ConnectionLostError("refused", sent=False)


@pytest.mark.parametrize(
    ("calls", "fault", "again"),
    [
        pytest.param([GET, PUT, POST, DELETE, MERGE, JSON, APPLY], TOO_MANY, True, id="429-all"),
        pytest.param([GET, PUT, POST, DELETE, MERGE, JSON, APPLY], BUSY, True, id="503-with-advice-all"),
        pytest.param([GET, PUT, POST, DELETE, MERGE, JSON, APPLY], UNSENT, True, id="never-sent-all"),
        pytest.param([GET, PUT, DELETE, MERGE, APPLY], BROKEN, True, id="500-repeatable"),
        pytest.param([POST, JSON], BROKEN, False, id="500-others"),
        pytest.param([GET, PUT, DELETE, MERGE, APPLY], LOST, True, id="lost-repeatable"),
        pytest.param([POST, JSON], LOST, False, id="lost-others"),
        pytest.param([GET, PUT, POST, DELETE, MERGE, JSON, APPLY], refuse(409), False, id="409-never"),
        pytest.param([GET, PUT, POST, DELETE, MERGE, JSON, APPLY], refuse(422), False, id="422-never"),
    ],
)
@virtual
async def test_what_is_tried_again(calls: list[Call], fault: Response | Exception, again: bool) -> None:
    for call in calls:
        server = Script(fault, OK)
        if again:
            await call(server.client)
        else:
            with pytest.raises(KubeError):
                await call(server.client)
        assert len(server.requests) == 1 + again


@virtual
async def test_retry_after_is_obeyed_with_jitter_on_top() -> None:
    waits = set()
    for seed in range(5):
        server = Script(refuse(429, retry_after="5"), OK)
        started = asyncio.get_running_loop().time()
        await Client(DirectTransport(server), rng=random.Random(seed)).get(PODS, "a", namespace="n")
        waits.add(asyncio.get_running_loop().time() - started)
    assert all(5 < wait < 5.3 for wait in waits)
    assert len(waits) == 5, "not all at the same moment"


@virtual
async def test_a_failure_without_advice_is_given_up_after_a_few_attempts() -> None:
    server = Script(refuse(500, "InternalError"))
    with pytest.raises(ApiError, match="InternalError"):
        await GET(server.client)
    assert len(server.requests) == 5


@virtual
async def test_a_429_that_never_ends_is_raised_before_the_deadline() -> None:
    server = Script(refuse(429, "TooManyRequests", retry_after="7"))
    started = asyncio.get_running_loop().time()
    with pytest.raises(ApiError, match="TooManyRequests"):
        await GET(server.client)
    assert asyncio.get_running_loop().time() - started <= 30
    assert len(server.requests) >= 4


@pytest.mark.parametrize("call", [GET, POST, DELETE, APPLY])
@virtual
async def test_a_deadline_on_every_call(call: Call) -> None:
    started = asyncio.get_running_loop().time()
    with pytest.raises(DeadlineExceededError, match="not done within 30 s"):
        await call(Script(None).client)
    assert asyncio.get_running_loop().time() - started == pytest.approx(30)


@virtual
async def test_a_deadline_of_ones_own_and_its_reason() -> None:
    server = Script(
        refuse(
            500,
            "InternalError",
        ),
        None,
    )
    with pytest.raises(DeadlineExceededError) as caught:
        await server.client.get(PODS, "a", namespace="n", timeout=3.0)
    assert isinstance(caught.value.__cause__, ApiError), "the last failure is told"
    assert isinstance(caught.value, TimeoutError)


@virtual
async def test_cancelling_a_call_is_no_deadline() -> None:
    task = asyncio.ensure_future(GET(Script(None).client))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (refuse(404, "NotFound"), "404 NotFound: NotFound"),
        (Response(404, b"404 page not found\n"), "404 NotFound: GET /api/v1/namespaces/n/pods/a: 404 page not found"),
        (Response(502, b"<html>"), "502 Error: GET /api/v1/namespaces/n/pods/a: <html>"),
        (Response(403, b""), "403 Forbidden: GET /api/v1/namespaces/n/pods/a: empty answer"),
        (Response(400, b'{"kind":"Pod"}'), '400 BadRequest: GET /api/v1/namespaces/n/pods/a: {"kind":"Pod"}'),
    ],
)
@virtual
async def test_errors_say_what_the_server_said(response: Response, says: str) -> None:
    with pytest.raises(ApiError) as caught:
        await GET(Script(response).client)
    assert str(caught.value) == says


@virtual
async def test_the_whole_status_is_kept() -> None:
    cause = {"reason": "FieldValueInvalid", "message": "must be above 0", "field": "spec.min"}
    body = status(422, "Invalid", "bad", name="a", kind="Thing", group="test.dev", causes=[cause], retryAfterSeconds=3)
    with pytest.raises(ApiError) as caught:
        await GET(Script(reply(body, 422)).client)
    error = caught.value
    assert error.is_invalid
    assert error.retry_after == 3
    assert error.status.details is not None
    assert msgspec.to_builtins(error.status.details.causes[0]) == cause


@pytest.mark.parametrize(
    ("code", "reason", "true"),
    [
        (404, "NotFound", "is_not_found"),
        (409, "Conflict", "is_conflict"),
        (409, "AlreadyExists", "is_already_exists"),
        (410, "Expired", "is_gone"),
        (422, "Invalid", "is_invalid"),
        (403, "Forbidden", "is_forbidden"),
        (401, "Unauthorized", "is_unauthorized"),
        (429, "TooManyRequests", "is_too_many_requests"),
    ],
)
def test_errors_can_be_told_apart(code: int, reason: str, true: str) -> None:
    error = ApiError.from_answer(code, {}, refuse(code, reason).body, "GET /")
    kinds = [name for name in dir(error) if name.startswith("is_") and getattr(error, name)]
    assert kinds == [true]


# Watches.


@virtual
async def test_a_watch_yields_events_bookmarks_and_what_cannot_be_read() -> None:
    good = {"metadata": {"name": "a", "resourceVersion": "5"}, "value": 1}
    bad = {"metadata": {"name": "b", "namespace": "n", "uid": "u", "resourceVersion": "6"}, "value": "text"}
    bookmark = {"kind": "Thing", "metadata": {"resourceVersion": "9"}}
    data = line("ADDED", good) + line("MODIFIED", bad) + line("BOOKMARK", bookmark) + b"\n" + line("DELETED", good)
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    client = Client(DirectTransport(streaming(*pieces)))
    async with aclosing(client.watch(THINGS, resource_version="1", type=Thing)) as changes:
        seen = [change async for change in changes]
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
        assert [change async for change in changes] == []
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
    monkeypatch.setattr("edl.kube.wire.LONGEST_LINE", 1000)
    client = Client(DirectTransport(streaming(*[b"x" * 100] * 20)))
    with pytest.raises(ConnectionLostError, match="longer than 1000 bytes"):
        async with aclosing(client.watch(PODS, resource_version="7")) as changes:
            await anext(changes)


@virtual
async def test_a_log_is_streamed_as_it_is() -> None:
    client = Client(DirectTransport(streaming(b"one\n", b"tw", b"o\n")))
    async with aclosing(client.stream(Request("GET", "/api/v1/namespaces/n/pods/a/log"))) as pieces:
        assert b"".join([piece async for piece in pieces]) == b"one\ntwo\n"


# The budget.


@virtual
async def test_the_budget_limits_the_rate_after_a_burst() -> None:
    budget, loop = Budget(qps=10, burst=5), asyncio.get_running_loop()
    times = []
    for _ in range(25):
        await budget.acquire()
        times.append(loop.time())
    assert times[4] == 0
    assert times[24] == pytest.approx(2.0)
    await asyncio.sleep(100)
    for _ in range(5):
        await budget.acquire()
    assert loop.time() == pytest.approx(102.0), "an idle while saves up one burst, not more"


@virtual
async def test_lanes_overtake_each_other() -> None:
    budget, order = Budget(qps=1, burst=1), []
    await budget.acquire()

    async def ask(lane: Lane, name: str) -> None:
        await budget.acquire(lane)
        order.append(name)

    lanes = [(Lane.BACKGROUND, "event"), (Lane.NORMAL, "status"), (Lane.URGENT, "delete"), (Lane.NORMAL, "status2")]
    tasks = [asyncio.create_task(ask(lane, name)) for lane, name in lanes]
    await asyncio.sleep(0)
    await asyncio.wait_for(budget.acquire(Lane.EXEMPT), 0.001)
    await asyncio.gather(*tasks)
    assert order == ["delete", "status", "status2", "event"]


@virtual
async def test_a_turn_that_is_cancelled_goes_to_the_next() -> None:
    budget = Budget(qps=1, burst=1)
    await budget.acquire()
    first, second = asyncio.create_task(budget.acquire()), asyncio.create_task(budget.acquire())
    await asyncio.sleep(0.5)
    first.cancel()
    await second
    assert asyncio.get_running_loop().time() == pytest.approx(1.0)
    third = asyncio.create_task(budget.acquire())
    asyncio.get_running_loop().call_later(1.0, third.cancel)  # granted and cancelled in the same turn of the loop
    await asyncio.gather(first, third, return_exceptions=True)
    await budget.acquire()
    assert asyncio.get_running_loop().time() <= 3.0


@pytest.mark.parametrize(("call", "lane"), [(DELETE, Lane.URGENT), (GET, Lane.NORMAL), (POST, Lane.NORMAL)])
@virtual
async def test_what_frees_resources_takes_the_urgent_lane(call: Call, lane: Lane) -> None:
    used: list[Lane] = []

    class Spy(Budget):
        async def acquire(self, lane: Lane = Lane.NORMAL) -> None:
            used.append(lane)

    await call(Client(DirectTransport(Script(OK)), budget=Spy()))
    assert used == [lane]


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (1, 0)])
def test_a_budget_that_lets_nothing_through_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="qps must be above 0"):
        Budget(qps=qps, burst=burst)
