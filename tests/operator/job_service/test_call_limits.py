"""The cost of a job that calls without measure: itself an answer of 429, the operator no memory, others nothing."""

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from edl.operator.job_service import JobRecord
from edl.operator.job_service.call_limits import ALWAYS, BURST, OPEN, OPEN_IN_ALL, RATE, CallLimits, OpenCalls
from edl.operator.job_service.memory_budget import MemoryBudget, weight
from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.rendezvous import session as rendezvous_session
from edl.operator.job_service.rendezvous.session import AGENTS_PER_POD, MAX_MESSAGE, MAX_NAME
from edl.operator.job_service.session import MAX_UNKNOWN_PODS, Session
from edl.operator.job_service.state import MAX_KEYS, JobState, Value, put
from tests.operator.job_service.test_server import Client, World, call, client, world

pytestmark = pytest.mark.case("attack-5")

__all__ = ["client", "world"]  # fixtures


def session_of(world: World, name: str = "j") -> Session:
    return world.service._sessions["ns", name, "edl"]


def remembered(session: Session) -> int:
    """Everything that a session keeps by a name that callers choose."""
    by_name: list[Any] = [session._claimed_at, session._seen, session._reports, session._usage]
    state = session.state
    return sum(map(len, by_name)) + len(state._staged.slots) + len(state._staged.values) + len(state._waiting)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/slots/pserver/0", {"holder": "x" * 300 + "{n}"}),
        ("POST", "/slots/pserver/77777", {"holder": "h{n}/1"}),
        ("POST", "/slots/no-such-role", {"holder": "h{n}/1"}),
        ("POST", "/slots/pserver", {"holder": "h{n}/1"}),
        ("POST", "/progress", {"pod": "p{n}"}),
        ("POST", "/usage", {"pod": "p{n}", "cpu": 1.0}),
        ("PUT", "/kv/bad%20key{n}", {}),
    ],
    ids=["long holder", "no such slot", "no such role", "no free slot", "progress", "usage", "bad key"],
)
async def test_nothing_is_kept_of_what_is_refused(
    world: World, client: Client, method: str, path: str, body: dict[str, Any]
) -> None:
    world.set_job(pods=frozenset({"a", "b"}))
    for index, pod in enumerate("ab"):
        assert (await call(client, "POST", f"/slots/pserver/{index}", json={"holder": f"{pod}/1"})).status == 200
    before = remembered(session_of(world))
    for number in range(50):
        named = {key: value.format(n=number) if isinstance(value, str) else value for key, value in body.items()}
        await call(client, method, path.format(n=number), json=named)
    assert remembered(session_of(world)) == before


async def test_holders_that_take_a_slot_from_each_other_leave_nothing_behind(world: World, client: Client) -> None:
    world.set_job(pods=frozenset({"a"}))
    for number in range(50):
        assert (await call(client, "POST", "/slots/pserver/0", json={"holder": f"a/{number}"})).status == 200
    session = session_of(world)
    assert (len(session._claimed_at), len(session._seen)) == (1, 1)


async def test_usage_of_pods_that_nobody_knows_is_bounded(world: World, client: Client) -> None:
    for number in range(MAX_UNKNOWN_PODS + 20):
        assert (await call(client, "POST", "/usage", json={"pod": f"p{number}"})).status == 200
    assert len(session_of(world)._usage) == MAX_UNKNOWN_PODS


async def test_a_job_that_calls_too_often_is_refused_and_others_are_not(world: World, client: Client) -> None:
    world.set_job("other", uid="u2")
    session_url = f"http://{client.host}:{client.port}/v1/jobs/ns/j/job"
    statuses: list[int] = []
    async with ClientSession(headers={"Authorization": "Bearer secret"}) as session:
        while 429 not in statuses and len(statuses) < 2 * BURST * RATE:
            async with session.get(session_url) as answer:
                statuses.append(answer.status)
                last = await answer.json()
                retry = answer.headers.get("Retry-After")
    assert set(statuses) == {200, 429}
    assert BURST * RATE <= len(statuses) < 1.2 * BURST * RATE
    assert (last["code"], retry) == ("too-many-calls", "1")
    assert (await call(client, "GET", "/job", job="other")).status == 200
    world.now += 1.0
    assert (await call(client, "GET", "/job")).status == 200, "after a while it is served again"


def limits(all_calls: OpenCalls | None = None) -> CallLimits:
    return CallLimits(all_calls or OpenCalls(), 0.0)


def open_calls(one: CallLimits, record: JobRecord, most: int, start: float = 0.0) -> list[Any]:
    """Opens as many calls as are admitted, `most` at most."""
    found: list[Any] = []
    with suppress(RefusedError):
        for number in range(most):
            block = one.admitted(record, start + number / 100)
            block.__enter__()
            found.append(block)
    return found


@pytest.mark.parametrize(("pods", "most"), [(0, 256), (100, 1056)])
def test_a_job_may_have_more_calls_open_if_it_has_more_pods(pods: int, most: int) -> None:
    record = JobRecord("u", "t", pods=frozenset(map(str, range(pods))))
    one = limits()
    found = open_calls(one, record, 5000)
    assert len(found) == most
    found.pop().__exit__(None, None, None)
    assert len(open_calls(one, record, 5000, start=100.0)) == 1, "what has ended makes room"


def test_when_all_have_too_many_calls_open_those_with_few_are_served() -> None:
    everybody = OpenCalls()
    everybody.count = OPEN_IN_ALL
    assert len(open_calls(limits(everybody), JobRecord("u", "t"), OPEN)) == ALWAYS


def test_a_job_has_so_many_keys_at_most() -> None:
    state = JobState(values={f"k{number}": Value(1, b"") for number in range(MAX_KEYS)})
    with pytest.raises(RefusedError, match="keys"):
        put(state, "one-more", b"", None)
    assert put(state, "k0", b"x", None)[0].values["k0"].data == b"x"


@pytest.mark.case("attack-low-bearer")
@pytest.mark.parametrize("header", ["Authorization", "EDL-Token", "EDL-Slot"])
async def test_bytes_that_are_no_text_are_refused_like_any_other_mistake(world: World, header: str) -> None:
    world.service.lead()
    async with TestServer(world.service.app()) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        token = b"" if header == "Authorization" else b"Authorization: Bearer secret\r\n"
        value = b"Bearer \xff" if header == "Authorization" else b"\xff/0/1"
        if header == "EDL-Token":
            token = b""
        lines = [b"POST /v1/jobs/ns/j/progress HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n", token]
        writer.write(b"".join(lines) + header.encode() + b": " + value + b"\r\nConnection: close\r\n\r\n{}")
        answer = await reader.read()
        writer.close()
    status = 400 if header == "EDL-Slot" else 401
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer


def filled(count: int) -> JobState:
    return JobState(values={"k": Value(1, b"x" * count)})


def test_when_all_jobs_store_too_much_those_with_little_still_may() -> None:
    budget = MemoryBudget(in_all=100_000)
    for _ in range(3):
        budget.check(JobState(), filled(30_000))
        budget.changed(JobState(), filled(30_000))
    with pytest.raises(RefusedError, match="all jobs together store") as refused:
        budget.check(JobState(), filled(20_000))
    assert (refused.value.status, refused.value.code) == (429, "busy")
    budget.check(JobState(), filled(8_000))
    budget.check(filled(30_000), filled(29_000))
    budget.changed(filled(30_000), None)
    budget.check(JobState(), filled(20_000))


async def test_what_all_jobs_store_is_counted_and_forgotten_with_them(world: World, client: Client) -> None:
    budget = world.service._budget
    for number in range(20):
        assert (await call(client, "PUT", f"/kv/k{number}", data=b"x" * 1000)).status == 200
    assert budget.used == weight(session_of(world).state.committed) > 20_000
    assert (await call(client, "PUT", "/kv/k0", data=b"")).status == 200
    assert budget.used == weight(session_of(world).state.committed)
    assert (await call(client, "PUT", "/kv/big", data=b"x" * 64 * 1024)).status == 413
    assert budget.used == weight(session_of(world).state.committed), "nothing is counted of what is refused"
    world.service.retire()
    assert budget.used == 0


async def test_a_job_that_stores_too_much_is_refused_with_the_reason(world: World, client: Client) -> None:
    world.service._budget._in_all = 10_000
    assert (await call(client, "PUT", "/kv/small", data=b"x" * 5000)).status == 200
    refused = await call(client, "PUT", "/kv/big", data=b"x" * 20_000)
    assert refused.status == 429
    assert "all jobs together store" in (await refused.json())["error"]


HUGE = 10**400


@pytest.mark.parametrize("field", ["done", "total", "workers", "pass", "passes", "nodes", "batch", "tuned_batch"])
async def test_a_figure_that_no_arithmetic_holds_is_refused(world: World, client: Client, field: str) -> None:
    """The attack: one report that failed whoever looked at the job's progress next, the leader's loops among them."""
    figures = {"done": 1, "total": 9, "throughput": 1.0}
    assert (await call(client, "POST", "/progress", json=figures)).status == 200
    for value in (HUGE, -HUGE, 2**60):
        refused = await call(client, "POST", "/progress", json={**figures, "done": 2, field: value})
        assert (refused.status, (await refused.json())["code"]) == (400, "bad-number")
    world.now += 2
    assert (await call(client, "POST", "/progress", json={**figures, "done": 3})).status == 200
    last = world.service.last_progress(("ns", "j", "edl"))
    assert last is not None
    assert (last.done, last.left) == (3, 6.0)


async def test_a_pace_that_no_arithmetic_holds_is_refused(world: World, client: Client) -> None:
    for field in ("throughput", "left", "span", "pause", "epoch", "noise"):
        refused = await call(client, "POST", "/progress", json={"done": 1, field: 1e300})
        assert (refused.status, f"{field} is" in (await refused.json())["error"]) == (400, True)
    assert (await call(client, "POST", "/progress", json={"done": 1, "loss": 1e300})).status == 200, "it may diverge"


def lobby_agents(world: World) -> set[str]:
    session = world.service._sessions.get(("ns", "j", "edl"))
    lobby = session.rendezvous._lobby if session is not None else None
    return set(lobby.agents) if lobby is not None else set()


async def greeted(stack: AsyncExitStack, world: World, client: Client, **said: str) -> str:
    """What an agent that says this is answered, empty if it is taken. It stays until the end of the test."""
    headers = {"Authorization": "Bearer secret"}
    socket = await stack.enter_async_context(client.ws_connect("/v1/jobs/ns/j/rendezvous", headers=headers))
    await socket.send_bytes(json.dumps({"minimum": 1, "maximum": 1, **said}).encode())
    answer = asyncio.ensure_future(socket.receive())
    while not answer.done() and said["agent"] not in lobby_agents(world):
        await asyncio.wait([answer], timeout=0.01)
    if not answer.done():
        answer.cancel()
        return ""
    return f"{answer.result().type.name} {answer.result().data} {answer.result().extra} {socket.close_code}"


@pytest.mark.parametrize("name", ["run", "agent"])
async def test_names_at_the_rendezvous_are_bounded(world: World, client: Client, name: str) -> None:
    world.set_job(pods=frozenset({"a"}))
    said = {"agent": "a/1", "run": "r", name: "x" * (MAX_NAME + 1)}
    async with AsyncExitStack() as stack:
        assert f"at most {MAX_NAME} characters" in await greeted(stack, world, client, **said)
    assert lobby_agents(world) == set()


async def test_agents_at_the_rendezvous_are_bounded_by_the_pods_of_the_job(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents come under ever new names: no more are known than the job could have."""
    monkeypatch.setattr(rendezvous_session, "MAX_AGENTS", 10)
    world.set_job(pods=frozenset({"a"}))
    async with AsyncExitStack() as stack:
        most = 10 + AGENTS_PER_POD * world.jobs["ns", "j", "edl"].pod_count
        answers = [await greeted(stack, world, client, agent=f"a/{number}", run="r") for number in range(most + 10)]
        assert answers[:most] == [""] * most
        assert all("too many for this job" in answer for answer in answers[most:]), answers[most:]
        assert len(lobby_agents(world)) == most


async def test_a_message_at_the_rendezvous_is_bounded(world: World, client: Client) -> None:
    world.set_job(pods=frozenset({"a"}))
    async with AsyncExitStack() as stack:
        answer = await greeted(stack, world, client, agent="a/1", run="r", filler="x" * 2 * MAX_MESSAGE)
    assert "1009" in answer, "too big, in the words of WebSocket"
    assert lobby_agents(world) == set()
