"""The calls of docs/reference/job-service.md over real HTTP, under leaders that come and go."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from edl.operator.job_service import JobRecord, JobService, MemoryStore, RoleRecord
from edl.operator.job_service.session import GRACE, Session
from edl.operator.job_service.state import LIMIT

Client = TestClient[Request, Application]


class World:
    """A service on a store, jobs that the test edits, and a clock that it turns."""

    def __init__(self) -> None:
        self.jobs: dict[tuple[str, str, str], JobRecord] = {}
        self.now = 100.0
        self.store = MemoryStore()
        self.service = self.new_service()
        self.set_job()

    def new_service(self) -> JobService:
        return JobService(self.store, self.named, clock=lambda: self.now, sleep=_brief, interval=0.0)

    def named(self, namespace: str, name: str) -> list[JobRecord]:
        return [record for key, record in self.jobs.items() if key[:2] == (namespace, name)]

    def set_job(self, name: str = "j", **fields: Any) -> None:
        fields = {"uid": "u1", "token": "secret", "roles": {"pserver": RoleRecord(2, ("p0", "p1"))}, **fields}
        record = JobRecord(**fields)
        self.jobs["ns", name, record.tag] = record
        self.service.changed(("ns", name, record.tag))


async def _brief(seconds: float) -> None:
    """However long it says: where the clock stands still, nobody's turn to write would ever come nearer."""
    await asyncio.sleep(min(seconds, 0.005))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client]:
    world.service.lead()
    async with TestClient(TestServer(world.service.app())) as client:
        yield client


@pytest.fixture
def suspended(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a call begins to wait for a change."""
    begun, wait_for_change = asyncio.Event(), Session.wait_for_change

    async def observed(session: Session, timeout: float) -> None:
        begun.set()
        await wait_for_change(session, timeout)

    monkeypatch.setattr(Session, "wait_for_change", observed)
    return begun


async def call(
    client: Client, method: str, path: str, token: str = "secret", slot: str = "", job: str = "j", **kwargs: Any
) -> ClientResponse:
    headers = {"Authorization": f"Bearer {token}", **kwargs.pop("headers", {})}
    if slot:
        headers["EDL-Slot"] = slot
    return await client.request(method, f"/v1/jobs/ns/{job}{path}", headers=headers, **kwargs)


async def claim(client: Client, path: str, holder: str, **fields: Any) -> Any:
    return await (await call(client, "POST", f"/slots/{path}", json={"holder": holder, **fields})).json()


async def put(client: Client, key: str, data: bytes, version: int | None = None, slot: str = "") -> ClientResponse:
    headers = {} if version is None else {"If-Match": str(version)}
    return await call(client, "PUT", f"/kv/{key}", data=data, headers=headers, slot=slot)


@pytest.mark.case("attack-low-existence")
@pytest.mark.parametrize(
    ("token", "job", "status", "code"),
    [
        ("secret", "j", 200, None),
        ("other", "j", 401, "unauthorized"),
        ("", "j", 401, "unauthorized"),
        ("secret", "k", 401, "unauthorized"),
        ("secret", "absent", 401, "unauthorized"),
    ],
)
async def test_a_token_opens_its_own_job_alone(
    world: World, client: Client, token: str, job: str, status: int, code: str | None
) -> None:
    world.set_job("k", token="another")
    response = await call(client, "GET", "/job", token=token, job=job)
    assert (response.status, (await response.json()).get("code")) == (status, code)


async def test_through_a_proxy_the_token_comes_in_a_header_of_its_own(client: Client) -> None:
    for token, status in (("secret", 200), ("other", 401)):
        answer = await client.get("/v1/jobs/ns/j/job", headers={"EDL-Token": token})
        assert answer.status == status


async def test_a_job_without_a_token_opens_to_nobody(world: World, client: Client) -> None:
    world.set_job(token="")
    assert (await call(client, "GET", "/job", token="")).status == 401


async def test_values_are_bytes_with_versions(client: Client) -> None:
    made = await put(client, "queue", b"\x00\xff", version=0)
    version = (await made.json())["version"]
    got = await call(client, "GET", "/kv/queue")
    assert (await got.read(), got.headers["ETag"]) == (b"\x00\xff", f'"{version}"')
    late = await put(client, "queue", b"x", version=0)
    assert (late.status, await late.json()) == (
        412,
        {"error": f"key queue is at version {version}, not 0", "code": "version", "version": version},
    )
    assert await (await call(client, "GET", "/kv?prefix=q")).json() == {"queue": version}
    assert (await call(client, "DELETE", "/kv/queue", headers={"If-Match": str(version)})).status == 200
    assert (await call(client, "GET", "/kv/queue")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "kwargs", "status"),
    [
        ("PUT", "/kv/a", {"data": b"x" * (LIMIT + 2000)}, 413),
        ("PUT", "/kv/a", {"data": b"x" * LIMIT}, 413),
        ("PUT", "/kv/a", {"data": b"", "headers": {"If-Match": "new"}}, 400),
        ("PUT", "/kv/-", {"data": b""}, 400),
        ("PUT", "/kv/a", {"data": b"", "headers": {"EDL-Slot": "who"}}, 400),
        ("POST", "/slots/pserver/x", {"json": {"holder": "p/1"}}, 400),
        ("POST", "/slots/pserver/0", {"data": b"{"}, 400),
        ("POST", "/slots/pserver/0", {"json": {"holder": ""}}, 400),
        ("POST", "/slots/nobody", {"json": {"holder": "p/1"}}, 404),
        ("POST", "/progress", {"json": {"loss": "low"}}, 400),
        ("POST", "/trainer-status", {"json": {"progress": 3}}, 400),
        ("GET", "/job?after=x&wait=soon", {}, 400),
        ("GET", "/kv/absent", {}, 404),
        ("GET", "/elsewhere", {}, 404),
        ("DELETE", "/job", {}, 405),
    ],
)
async def test_bad_calls_are_refused_in_words(
    client: Client, method: str, path: str, kwargs: dict[str, Any], status: int
) -> None:
    revision = (await (await call(client, "GET", "/job")).json())["revision"]
    response = await call(client, method, path.replace("after=x", f"after={revision}"), **kwargs)
    body = await response.json()
    assert response.status == status
    assert body["error"]
    assert body["code"]


async def test_a_fenced_writer_is_refused_and_its_successor_is_not(client: Client) -> None:
    first = (await claim(client, "master/0", "m/1"))["epoch"]
    assert (await put(client, "queue", b"1", slot=f"master/0/{first}")).status == 200
    second = (await claim(client, "master/0", "m/2"))["epoch"]
    late = await put(client, "queue", b"late", slot=f"master/0/{first}")
    assert (late.status, (await late.json())["code"]) == (409, "stale-epoch")
    assert (await call(client, "POST", "/progress", json={}, slot=f"master/0/{first}")).status == 409
    assert (await put(client, "queue", b"2", slot=f"master/0/{second}")).status == 200
    assert await (await call(client, "GET", "/kv/queue")).read() == b"2"


async def test_a_pod_without_an_index_gets_a_slot_whose_holder_is_gone(world: World, client: Client) -> None:
    world.set_job(pods=frozenset({"a", "b", "c"}))
    assert await claim(client, "pserver", "a/1", wish=1, address="x:1") == {"index": 1, "epoch": 1}
    assert await claim(client, "pserver", "b/1", wish=1) == {"index": 0, "epoch": 1}
    assert (await claim(client, "pserver", "c/1"))["code"] == "no-free-slot"
    assert await claim(client, "pserver", "a/2") == {"index": 1, "epoch": 2}, "a new process takes its pod's slot"
    world.set_job(pods=frozenset({"b", "c"}))
    assert await claim(client, "pserver", "c/1") == {"index": 1, "epoch": 3}


async def test_a_holder_that_the_operator_has_not_seen_yet_is_not_gone_before_the_grace(
    world: World, client: Client
) -> None:
    world.set_job(roles={"pserver": RoleRecord(1)}, pods=frozenset())
    await claim(client, "pserver", "quick/1")
    assert (await claim(client, "pserver", "other/1"))["code"] == "no-free-slot"
    world.now += GRACE + 1
    assert (await claim(client, "pserver", "other/1"))["epoch"] == 2


async def test_a_new_leader_declares_nobody_dead(world: World, client: Client) -> None:
    world.set_job(roles={"pserver": RoleRecord(1)}, pods=frozenset({"a"}))
    await claim(client, "pserver", "a/1", address="h:1")
    await put(client, "queue", b"1")
    world.service.retire()
    assert (await call(client, "GET", "/job")).status == 503
    world.now += 1000
    world.service = world.new_service()
    world.service.lead()
    async with TestClient(TestServer(world.service.app())) as fresh:
        world.set_job(roles={"pserver": RoleRecord(1)}, pods=frozenset())
        view = await (await call(fresh, "GET", "/job")).json()
        slot = {"epoch": 1, "holder": "a/1", "address": "h:1", "gone": False}
        assert view["roles"]["pserver"]["slots"] == {"0": slot}
        assert (await claim(fresh, "pserver", "b/1"))["code"] == "no-free-slot"
        assert await (await call(fresh, "GET", "/kv/queue")).read() == b"1"
        world.now += GRACE + 1
        assert (await claim(fresh, "pserver", "b/1"))["epoch"] == 2


@pytest.mark.case("acceptance-16")
@pytest.mark.parametrize("end", ["failed", "succeeded"])
async def test_to_a_new_leader_a_pod_that_has_ended_is_gone_at_once(world: World, client: Client, end: str) -> None:
    world.set_job(roles={"pserver": RoleRecord(1)}, pods=frozenset({"a"}))
    await claim(client, "pserver", "a/1", address="h:1")
    world.service.retire()
    world.now += 1000
    world.service = world.new_service()
    world.service.lead()
    async with TestClient(TestServer(world.service.app())) as fresh:
        ended = {name: frozenset({"a"} if name == end else ()) for name in ("failed", "succeeded")}
        world.set_job(
            roles={"pserver": RoleRecord(1)},
            pods=frozenset({"b"}),
            failed=ended["failed"],
            succeeded=ended["succeeded"],
        )
        view = await (await call(fresh, "GET", "/job")).json()
        assert view["roles"]["pserver"]["slots"]["0"]["gone"] is True
        assert (await claim(fresh, "pserver", "b/1"))["epoch"] == 2


async def test_a_waiting_reader_gets_the_value_when_it_is_newer(client: Client, suspended: asyncio.Event) -> None:
    version = (await (await put(client, "k", b"1")).json())["version"]
    waiting = asyncio.create_task(call(client, "GET", f"/kv/k?after={version}&wait=20"))
    await asyncio.wait_for(suspended.wait(), 10)
    assert not waiting.done()
    await put(client, "k", b"2")
    assert await (await asyncio.wait_for(waiting, 10)).read() == b"2"
    assert (await call(client, "GET", f"/kv/k?after={version + 5}&wait=0")).status == 304


async def test_a_waiting_reader_of_the_job_sees_sizes_slots_and_leavers_change(
    world: World, client: Client, suspended: asyncio.Event
) -> None:
    def edit() -> None:
        world.set_job(leaving=("j-trainer-1",))

    view = await (await call(client, "GET", "/job")).json()
    assert view["roles"]["pserver"] == {"replicas": 2, "addresses": ["p0", "p1"], "slots": {}}

    async def after(change: Awaitable[object]) -> Any:
        suspended.clear()
        waiting = asyncio.create_task(call(client, "GET", f"/job?after={view['revision']}&wait=20"))
        await asyncio.wait_for(suspended.wait(), 10)
        assert not waiting.done()
        await change
        return await (await asyncio.wait_for(waiting, 10)).json()

    view = await after(claim(client, "pserver/0", "a/1", address="h:1"))
    assert view["roles"]["pserver"]["slots"]["0"]["address"] == "h:1"
    view = await after(asyncio.to_thread(asyncio.get_running_loop().call_soon_threadsafe, edit))
    assert view["leaving"] == ["j-trainer-1"]


async def test_retiring_ends_a_wait(world: World, client: Client, suspended: asyncio.Event) -> None:
    revision = (await (await call(client, "GET", "/job")).json())["revision"]
    waiting = asyncio.create_task(call(client, "GET", f"/job?after={revision}&wait=20"))
    await asyncio.wait_for(suspended.wait(), 10)
    world.service.retire()
    assert (await asyncio.wait_for(waiting, 10)).status == 503


async def test_a_connection_to_a_former_leader_is_not_used_again(world: World) -> None:
    """It may live on as a standby; a client that keeps its connection would get 503 for ever."""
    headers, path = {"Authorization": "Bearer secret"}, "/v1/jobs/ns/j/job"
    former = web.AppRunner(world.service.app())
    await former.setup()
    site = web.TCPSite(former, "127.0.0.1", 0)
    await site.start()
    host, port = former.addresses[0][:2]
    world.service.lead()
    async with ClientSession(f"http://{host}:{port}", headers=headers) as session:
        assert (await session.get(path)).status == 200
        await site.stop()  # what is connected stays connected
        world.service.retire()
        world.service = world.new_service()
        world.service.lead()
        leader = await world.service.serve(host, port)
        async with session.get(path) as refused:
            assert (refused.status, (await refused.json())["code"]) == (503, "not-leading")
        assert (await session.get(path)).status == 200
    await leader.cleanup()
    await former.cleanup()


async def test_a_job_made_again_under_its_name_starts_empty(world: World, client: Client) -> None:
    await put(client, "k", b"old")
    world.set_job(uid="u2", token="new")
    assert (await call(client, "GET", "/kv/k")).status == 401
    assert (await call(client, "GET", "/kv/k", token="new")).status == 404
    del world.jobs["ns", "j", "edl"]
    world.service.changed(("ns", "j", "edl"))
    assert (await call(client, "GET", "/kv/k", token="new")).status == 401


async def test_progress_is_kept_in_memory_with_its_age(world: World, client: Client) -> None:
    assert world.service.progress(("ns", "j", "edl")) is None
    await call(client, "POST", "/progress", json={"throughput": 10.5, "pass": 1, "passes": 3})
    await call(client, "POST", "/progress", json={"loss": 0.25, "pass": 2})
    world.now += 7
    reported = world.service.progress(("ns", "j", "edl"))
    assert reported is not None
    progress, age = reported
    assert (progress.throughput, progress.loss, progress.pass_index, progress.passes, age) == (10.5, 0.25, 2, 3, 7.0)
    assert world.store.writes == 0


async def test_the_job_view_carries_the_last_report_and_waits_for_none(world: World, client: Client) -> None:
    before = await (await call(client, "GET", "/job")).json()
    assert "progress" not in before
    await call(client, "POST", "/progress", json={"loss": 0.25, "pass": 2})
    world.now += 7
    view = await (await call(client, "GET", "/job")).json()
    assert view["progress"] == {"loss": 0.25, "pass": 2, "age": 7.0, "idle": 7.0}
    assert view["revision"] == before["revision"], "a report alone wakes nobody"


async def test_two_leaders_at_once_cannot_both_give_the_same_epoch(world: World, client: Client) -> None:
    """The paused one still believes that it leads; the store does not let it."""
    await claim(client, "master/0", "m/1")
    rival = world.new_service()
    rival.lead()
    async with TestClient(TestServer(rival.app())) as other:
        assert (await claim(other, "master/0", "m/2"))["epoch"] == 2
        refused = await call(client, "POST", "/slots/master/0", json={"holder": "m/3"})
        assert refused.status == 503
        assert (await claim(client, "master/0", "m/3"))["epoch"] == 3


async def test_pods_that_name_themselves_are_known_by_their_silence(world: World, client: Client) -> None:
    world.set_job(pods=frozenset({"j-0", "j-1"}))
    for pod in ("j-0", "j-gone", ""):
        await call(client, "POST", "/progress", json={"done": 1, "pod": pod})
    world.now += 5
    await call(client, "POST", "/progress", json={"done": 2, "pod": "j-1"})
    assert world.service.silence(("ns", "j", "edl")) == {"j-0": 5.0, "j-1": 0.0}
    assert world.service.silence(("ns", "other", "edl")) == {}


async def test_of_two_jobs_of_one_name_the_token_says_which_is_meant(world: World, client: Client) -> None:
    world.set_job(uid="u2", token="other", tag="ptej", phase="Running")
    for token, phase in (("secret", ""), ("other", "Running")):
        assert (await (await call(client, "GET", "/job", token=token)).json())["phase"] == phase
    await call(client, "PUT", "/kv/k", data=b"mine", headers={"If-Match": "0"})
    assert (await call(client, "GET", "/kv/k", token="other")).status == 404


async def test_updates_of_hugging_face_are_progress(world: World, client: Client) -> None:
    metrics = [{"name": name, "value": value} for name, value in (("current_step", "4"), ("total_steps", "40"))]
    answer = await call(client, "POST", "/trainer-status", json={"trainerStatus": {"metrics": metrics}})
    assert answer.status == 200
    last = world.service.last_progress(("ns", "j", "edl"))
    assert last is not None
    assert (last.done, last.total) == (4, 40)
    assert world.service.take_reported() == {("ns", "j", "edl")}
    assert world.service.take_reported() == set()
