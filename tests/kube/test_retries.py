"""Deadlines, retries, errors and the rate limit of every call."""

import asyncio
import random

import msgspec
import pytest

from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, ConnectionLostError, DeadlineExceededError, KubeError
from edl.kube.rest.transport import DirectTransport, Response
from tests.kube.fake_api import refuse, reply, status
from tests.kube.scripted import DELETE, GET, OK, PODS, POST, Call, Script
from tests.virtual_time import virtual

PUT: Call = lambda c: c.replace(PODS, "a", {}, namespace="n")  # noqa: E731
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
        (Response(502, b"<html>"), "502 BadGateway: GET /api/v1/namespaces/n/pods/a: <html>"),
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
    ],
)
def test_errors_can_be_told_apart(code: int, reason: str, true: str) -> None:
    error = ApiError.from_answer(code, {}, refuse(code, reason).body, "GET /")
    kinds = [name for name in dir(error) if name.startswith("is_") and getattr(error, name)]
    assert kinds == [true]
