"""Agents and the service over real connections: rounds are durable, and leaders come and go without a regroup."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from edl.operator.job_service import JobRecord, JobService, MemoryStore
from edl.protocol.rendezvous import Hello
from edl.protocol.rounds import Round, pod_of
from edl.runtime.torch.agent_state import AgentState
from edl.runtime.torch.connection import Address, ConnectionThread, RendezvousConnection


class World:
    """One service at one address, whoever leads behind it, and agents that live in this process."""

    def __init__(self, jobs: int = 1) -> None:
        self.store = MemoryStore()
        self.records = {f"j{n}": JobRecord(uid=f"u{n}", token="secret", target=2) for n in range(jobs)}
        self.agents: dict[str, tuple[RendezvousConnection, asyncio.Task[None]]] = {}
        self.port = 0
        self.service: JobService | None = None
        self._runner: web.AppRunner | None = None

    def _named(self, namespace: str, name: str) -> list[JobRecord]:
        return [self.records[name]] if name in self.records else []

    async def up(self) -> None:
        self.service = JobService(self.store, self._named, interval=0.01)
        self.service.lead()
        self._runner = await self.service.serve("127.0.0.1", self.port)
        self.port = self._runner.addresses[0][1]

    async def down(self) -> None:
        assert self.service is not None
        assert self._runner is not None
        self.service.retire()
        await self._runner.cleanup()

    def edit(self, job: str = "j0", **changes: object) -> None:
        self.records[job] = msgspec.structs.replace(self.records[job], **changes)
        assert self.service is not None
        self.service.changed(("ns", job, "edl"))

    def address(self, job: str = "j0") -> Address:
        return Address(f"http://127.0.0.1:{self.port}/v1/jobs/ns/{job}/rendezvous", "secret")

    def start(self, *pods: str, job: str = "j0", run: str = "run", minimum: int = 1, window: float = 0.2) -> None:
        for pod in pods:
            state = AgentState(
                Hello(
                    agent=f"{pod}/{len(self.agents)}",
                    run=run,
                    minimum=minimum,
                    maximum=4,
                    window=window,
                    linger=0.3,
                    follows=True,
                )
            )
            state.wait(f"{pod}:1")
            connection = RendezvousConnection(self.address(job), state, changed=lambda pod=pod: self._act(pod))  # type: ignore[misc]  # mypy: a default is no argument of the callback's type
            self.agents[pod] = connection, asyncio.create_task(connection.run())

    def _act(self, pod: str) -> None:
        connection, _ = self.agents[pod]
        if connection.state.stale or (connection.state.failure_cause and not connection.state.failure_cause.own):
            connection.state.stale = ""
            connection.state.wait(f"{pod}:{connection.state.number + 1}")
            connection.report_changed()

    async def stop(self, pod: str) -> None:
        _, task = self.agents.pop(pod)
        task.cancel()
        await asyncio.wait({task})

    def stored(self, job: str = "j0") -> Round | None:
        kept = self.store.kept.get(("ns", job, self.records[job].uid))
        return kept.state.round if kept else None

    def pods(self, job: str = "j0") -> list[str]:
        stored = self.stored(job)
        return sorted(pod_of(member.agent) for member in stored.members) if stored else []

    def state(self, pod: str) -> AgentState:
        return self.agents[pod][0].state


async def until(holds: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.005)
    assert holds(), what


@asynccontextmanager
async def serving(jobs: int = 1) -> AsyncIterator[World]:
    world = World(jobs)
    await world.up()
    try:
        yield world
    finally:
        for pod in list(world.agents):
            await world.stop(pod)
        await world.down()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serving() as world:
        yield world


async def test_a_round_is_durable_before_it_is_told(world: World) -> None:
    world.start("a", "b")
    await until(lambda: all(world.state(pod).round is not None for pod in "ab"), "a round")
    assert world.state("a").round == world.state("b").round == world.stored()
    assert {world.state("a").rank, world.state("b").rank} == {0, 1}


@pytest.mark.parametrize("how", ["killed", "pod gone", "pod leaving", "leaves"])
async def test_survivors_regroup(world: World, how: str) -> None:
    world.edit(pods=frozenset("abc"), target=3)
    world.start("a", "b", "c")
    await until(lambda: world.pods() == ["a", "b", "c"], "three")
    if how == "killed":
        await world.stop("b")
    elif how == "leaves":
        world.state("b").leave("signal")
        world.agents["b"][0].report_changed()
    else:
        world.edit(**({"pods": frozenset("ac")} if how == "pod gone" else {"leaving": ("b",)}))
    await until(lambda: world.pods() == ["a", "c"] and world.state("c").number == 2, "two")
    assert world.state("a").number == 2


async def test_a_joiner_comes_in(world: World) -> None:
    world.start("a", "b")
    await until(lambda: world.state("b").number == 1, "a round")
    world.edit(target=3)
    world.start("c")
    await until(lambda: world.state("c").number == 2, "the second round")
    assert world.pods() == ["a", "b", "c"]


async def test_an_edit_of_the_job_reaches_agents_that_wait(world: World) -> None:
    world.start("a", minimum=2)
    await until(lambda: "1 of at least 2" in world.state("a").waiting_for, "a wait")
    world.edit(bounds=(1, 4))
    await until(lambda: world.state("a").number == 1, "a round of one")


def refused(caplog: pytest.LogCaptureFixture) -> int:
    """Attempts of agents to connect that failed."""
    return sum("rendezvous: no connection" in record.message for record in caplog.records)


async def test_a_change_of_leader_while_they_wait(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="edl.runtime.torch.connection")
    world.start("a", minimum=2)
    await until(lambda: "1 of at least 2" in world.state("a").waiting_for, "a wait")
    await world.down()
    world.start("b", minimum=2)
    await until(lambda: refused(caplog) >= 2, "nobody serves")
    await world.up()
    await until(lambda: world.state("a").number == world.state("b").number == 1, "a round")


async def test_an_agent_of_an_older_attempt_is_refused(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    world.edit(run="second")
    world.start("old", run="first")
    world.start("a", "b", run="second")
    await until(lambda: bool(world.state("old").refused), "a refusal")
    assert world.state("old").refused == "it belongs to first, the present attempt is second"
    await until(lambda: world.pods() == ["a", "b"], "a round of the present attempt")


async def test_nobody_waits_for_the_others_of_a_job_that_has_failed(world: World) -> None:
    world.start("a", minimum=2)
    await until(lambda: bool(world.state("a").waiting_for), "it waits for another one")
    world.edit(phase="Failed")
    await until(lambda: world.state("a").refused == "the job has failed", "it is told")
    world.start("b", minimum=2)
    await until(lambda: world.state("b").refused == "the job has failed", "and so is who comes now")


async def test_a_new_attempt_starts_anew(world: World) -> None:
    world.start("a", "b", run="first")
    await until(lambda: world.pods() == ["a", "b"], "a round")
    world.edit(run="second")
    world.start("c", "d", run="second")
    await until(lambda: world.pods() == ["c", "d"], "a round of the second attempt")
    stored = world.stored()
    assert stored is not None
    assert stored.run == "second"
    await until(lambda: bool(world.state("a").refused), "the end of the first attempt")


@pytest.mark.parametrize("first", [b"nonsense", b"{}", b'{"agent": "a", "run": "r", "minimum": 3, "maximum": 1}'])
async def test_what_is_no_hello_ends_the_connection(world: World, first: bytes) -> None:
    import aiohttp

    address = world.address()
    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer secret"}) as session,
        session.ws_connect(address.url) as socket,
    ):
        await socket.send_bytes(first)
        answers = [message.type async for message in socket]
    assert len(answers) <= 1
    assert socket.closed


async def test_a_stranger_does_not_get_in(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="edl.runtime.torch.connection")
    state = AgentState(Hello(agent="x/1", run="run", minimum=1, maximum=1))
    state.wait("x:1")
    connection = RendezvousConnection(Address(world.address().url, "wrong"), state)
    task = asyncio.create_task(connection.run())
    await until(lambda: refused(caplog) >= 2, "refused again and again")
    task.cancel()
    await asyncio.wait({task})
    assert connection.connections == 0


async def test_fifty_jobs_do_not_regroup_when_their_leader_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    async with serving(50) as world:
        for job in world.records:
            world.start(f"{job}-worker-0", f"{job}-worker-1", job=job, minimum=2)
        await until(lambda: all(len(world.pods(job)) == 2 for job in world.records), "fifty rounds")
        for _ in range(3):
            met = {pod: connection.connections for pod, (connection, _) in world.agents.items()}
            await world.down()
            await asyncio.sleep(0.2)
            await world.up()
            await until(lambda: all(world.agents[pod][0].connections > met[pod] for pod in met), "all back")  # noqa: B023 - awaited here
        states = [connection.state for connection, _ in world.agents.values()]
        assert all(state.number == 1 and not state.stale for state in states)
        for job in world.records:
            world.start(f"{job}-worker-2", job=job, minimum=2)
        await until(lambda: all(len(world.pods(job)) == 3 for job in world.records), "rounds with a newcomer")
        rounds = [world.stored(job) for job in world.records]
        assert {one.number for one in rounds if one is not None} == {2}, "the newcomer's is the first since"


async def test_a_thread_of_its_own_serves_programs_without_a_loop(world: World) -> None:
    state = AgentState(Hello(agent="t/1", run="run", minimum=1, maximum=2, window=0.05))
    connection = ConnectionThread(world.address(), state)
    try:
        connection.act(lambda state: state.wait("t:1"))
        assert await asyncio.to_thread(connection.until, lambda state: state.number == 1, 30.0)
        connection.act(lambda state: state.finish())
        assert await asyncio.to_thread(connection.until, lambda state: state.over, 30.0)
    finally:
        await asyncio.to_thread(connection.close)
