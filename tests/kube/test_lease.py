"""Two candidates, one lease, and everything that tempts both of them to work at the same time."""

import asyncio
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from edl.kube.controllers.lease import Fence, Lease, LeaseLostError
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, ConnectionLostError, KubeError
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import DirectTransport, Request, Response
from tests.kube.fake_api import FakeApi, refuse
from tests.kube.things import until
from tests.virtual_time import VirtualLoop, virtual

PODS = Resource("", "v1", "pods", "Pod")


class Candidate:
    """A process of its own: its own clock, its own link to the server (which can be cut), its own work."""

    def __init__(self, api: FakeApi, name: str, *, skew: float = 0.0, duration: float = 15.0) -> None:
        self.link: str = "up"
        self.worked: list[tuple[float, float]] = []
        self.paused_for = 0.0
        self._api = api
        self._since: float | None = None
        transport = DirectTransport(self._reach)
        loop = asyncio.get_running_loop()
        wall = lambda: datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=loop.time() + skew)  # noqa: E731
        self.lease = Lease(
            Client(transport, rng=random.Random(1)),
            name="leader",
            namespace="edl",
            identity=name,
            duration=duration,
            clock=lambda: loop.time() + skew,
            now=wall,
        )
        self.fenced = Client(Fence(transport, self.lease.check), rng=random.Random(2))
        self.task = asyncio.create_task(self.lease.hold(self._work), name=name)

    async def _reach(self, request: Request) -> Response:
        if self.link == "refused":
            raise ConnectionLostError("connection refused", sent=False)
        if self.link == "hung":
            await asyncio.Event().wait()
        if self.link == "failing":
            return refuse(500, "InternalError")
        return await self._api.handle(request)

    async def _work(self) -> None:
        time = asyncio.get_running_loop().time
        self._since = time()
        try:
            await asyncio.Event().wait()
        finally:
            self.worked.append((self._since, time()))
            self._since = None

    @property
    def works(self) -> bool:
        return self._since is not None

    async def stop(self) -> BaseException | None:
        self.task.cancel()
        return (await asyncio.gather(self.task, return_exceptions=True))[0]


@virtual
async def test_the_first_one_works_and_keeps_working() -> None:
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)
    second = Candidate(api, "b")
    await asyncio.sleep(600)
    assert first.works
    assert not second.works
    spec = api.objects["leases"]["edl", "leader"]["spec"]
    assert spec["holderIdentity"] == "a"
    assert spec["leaseDurationSeconds"] == 15
    assert spec["renewTime"].endswith("Z")
    await first.stop()
    await second.stop()


@virtual
async def test_given_back_on_stop_and_taken_within_a_second() -> None:
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)
    second = Candidate(api, "b")
    await asyncio.sleep(20)
    stopped = asyncio.get_running_loop().time()
    await first.stop()
    await until(lambda: second.works)
    assert asyncio.get_running_loop().time() - stopped < 1
    assert api.objects["leases"]["edl", "leader"]["spec"]["leaseTransitions"] == 1
    await second.stop()


async def done_but_never_answered(api: FakeApi, request: Request) -> Response:
    """The write arrives; whoever sent it is stopped before the answer comes."""
    await api._write(request)
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


@pytest.mark.case("acceptance-28")
@virtual
async def test_given_back_although_a_renewal_was_on_its_way() -> None:
    """The renewal that the stop cancels arrives all the same, so that the version we know is not the present one."""
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)
    second = Candidate(api, "b")
    api.next_writes.append(partial(done_but_never_answered, api))
    await until(lambda: not api.next_writes)
    await asyncio.sleep(0.01)
    stopped = asyncio.get_running_loop().time()
    await first.stop()
    await until(lambda: second.works)
    assert asyncio.get_running_loop().time() - stopped < 1
    await second.stop()


@pytest.mark.case("acceptance-28")
@virtual
async def test_given_back_although_the_answer_to_taking_it_was_not_awaited() -> None:
    api = FakeApi()
    api.next_writes.append(partial(done_but_never_answered, api))
    first = Candidate(api, "a")
    await until(lambda: not api.next_writes)
    await asyncio.sleep(0.01)
    assert api.objects["leases"]["edl", "leader"]["spec"]["holderIdentity"] == "a"
    await first.stop()
    assert api.objects["leases"]["edl", "leader"]["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("how", ["taken", "deleted"])
@virtual
async def test_what_is_another_ones_by_now_is_not_given_back(how: str) -> None:
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)
    if how == "taken":
        api.put("leases", "leader", "edl", spec={"holderIdentity": "thief", "leaseDurationSeconds": 15})
    else:
        api.remove("leases", "leader", "edl")
    await first.stop()
    left = api.objects["leases"].get(("edl", "leader"), {"spec": {"holderIdentity": "nobody"}})
    assert left["spec"]["holderIdentity"] == ("thief" if how == "taken" else "nobody")


@virtual
async def test_a_server_that_does_not_answer_does_not_hold_up_the_stop() -> None:
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)
    first.link = "hung"
    stopped = asyncio.get_running_loop().time()
    await first.stop()
    assert asyncio.get_running_loop().time() - stopped <= 5.1


@pytest.mark.parametrize("fault", ["refused", "hung", "failing"])
@pytest.mark.parametrize("skew", [0.0, 30.0, -30.0], ids=["same-clock", "30s-ahead", "30s-behind"])
@virtual
async def test_work_ends_before_another_one_can_begin(fault: str, skew: float) -> None:
    api = FakeApi()
    first = Candidate(api, "a", skew=1000.0)
    await until(lambda: first.works)
    second = Candidate(api, "b", skew=1000.0 + skew)
    await asyncio.sleep(31.3)
    cut = asyncio.get_running_loop().time()
    first.link = fault
    await until(lambda: second.works)
    ((_, ended),) = first.worked
    began = asyncio.get_running_loop().time()
    assert ended - cut <= 10.01, "cancelled a third of the lease before its end"
    assert began - ended >= 4.9, "with time to spare"
    assert began - cut < 20, "and the other one waits no longer than it must"
    assert isinstance(await first.stop(), LeaseLostError)
    await second.stop()


@virtual
async def test_a_leader_stopped_for_longer_than_its_lease_writes_nothing_more() -> None:
    """As after SIGSTOP: when it wakes, its work runs on before anything can cancel it. The fence looks at the clock."""
    api = FakeApi()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    first = Candidate(api, "a")
    await until(lambda: first.works)
    await first.fenced.create(PODS, {"metadata": {"name": "before"}}, namespace="edl")
    woken = loop.create_future()
    written: list[object] = []

    async def write_on_waking() -> None:
        await woken
        try:
            written.append(await first.fenced.create(PODS, {"metadata": {"name": "after"}}, namespace="edl"))
        except LeaseLostError as error:
            written.append(error)

    writing = asyncio.create_task(write_on_waking())
    await asyncio.sleep(0)
    loop.advance(40.0)
    woken.set_result(None)  # due in the same turn as the lease's own timers
    await writing
    assert isinstance(written[0], LeaseLostError)
    assert isinstance((await asyncio.gather(first.task, return_exceptions=True))[0], LeaseLostError)
    assert list(api.objects["pods"]) == [("edl", "before")]
    assert not first.works


@pytest.mark.parametrize("how", ["taken", "deleted"])
@virtual
async def test_a_lease_taken_away_ends_the_work_at_the_next_renewal(how: str) -> None:
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)
    begun = asyncio.get_running_loop().time()
    if how == "taken":
        api.put("leases", "leader", "edl", spec={"holderIdentity": "thief", "leaseDurationSeconds": 15})
    else:
        api.remove("leases", "leader", "edl")
    await until(lambda: not first.works)
    assert asyncio.get_running_loop().time() - begun <= 3.1
    assert not first.lease.held
    assert isinstance(await first.stop(), LeaseLostError)


@virtual
async def test_a_deleted_lease_is_not_made_again_while_its_holder_may_still_work() -> None:
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)
    second = Candidate(api, "b")
    await asyncio.sleep(10)
    first.link = "hung"
    api.remove("leases", "leader", "edl")
    await until(lambda: second.works)
    ((_, ended),) = first.worked
    assert ended < asyncio.get_running_loop().time()
    assert len([r for r in api.requests if r.path.endswith("/leases/leader")]) < 200, "and nobody spins"
    await first.stop()
    await second.stop()


@virtual
async def test_a_short_outage_does_not_end_the_work() -> None:
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)
    for fault in ("refused", "hung", "failing"):
        first.link = fault
        await asyncio.sleep(6)
        first.link = "up"
        await asyncio.sleep(10)
    assert first.works
    assert not first.worked
    await first.stop()


@virtual
async def test_our_own_lost_answer_is_no_defeat() -> None:
    """The renewal arrived, its answer did not: the next one meets a conflict with ourselves."""
    api = FakeApi()
    first = Candidate(api, "a")
    await until(lambda: first.works)

    async def done_but_unanswered(request: Request) -> Response:
        await api._write(request)
        raise ConnectionLostError("the connection broke")

    api.next_writes.append(done_but_unanswered)
    await asyncio.sleep(60)
    assert first.works
    await first.stop()


@virtual
async def test_two_of_three_always_wait_whatever_happens() -> None:
    """Random cuts for an hour of virtual time: never two at work, and never nobody for long."""
    api, rng = FakeApi(), random.Random(7)
    loop = asyncio.get_running_loop()
    living = [Candidate(api, f"c{n}", skew=rng.uniform(-30, 30)) for n in range(3)]
    worked: list[tuple[float, float]] = []
    born = len(living)
    idle_since = loop.time()
    for _ in range(360):
        await asyncio.sleep(10 * rng.random())
        victim = rng.choice(living)
        victim.link = rng.choice(["up", "up", "up", "refused", "hung", "failing"])
        assert sum(one.works for one in living) <= 1
        for one in [one for one in living if one.task.done()]:
            living.remove(one)
            assert isinstance(await one.stop(), LeaseLostError)
            worked += one.worked
            living.append(Candidate(api, f"c{born}", skew=rng.uniform(-30, 30)))
            born += 1
        if any(one.works for one in living):
            idle_since = loop.time()
        elif all(one.link == "up" for one in living):
            assert loop.time() - idle_since < 120
    for one in living:
        await one.stop()
        worked += one.worked
    worked.sort()
    assert len(worked) > 5, "leadership moved"
    assert all(before[1] < after[0] for before, after in itertools.pairwise(worked)), "and never overlapped"


@pytest.mark.parametrize(("identity", "duration"), [("", 15.0), ("a", 0.5)])
@virtual
async def test_nonsense_is_refused(identity: str, duration: float) -> None:
    client = Client(DirectTransport(FakeApi().handle))
    with pytest.raises(ValueError, match="lease leader"):
        Lease(client, name="leader", namespace="edl", identity=identity, duration=duration)


@virtual
async def test_work_that_ends_by_itself_ends_the_lease() -> None:
    api = FakeApi()
    client = Client(DirectTransport(api.handle))
    clock: Callable[[], float] = asyncio.get_running_loop().time
    lease = Lease(client, name="leader", namespace="edl", identity="a", clock=clock)

    async def fail() -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await lease.hold(fail)
    assert api.objects["leases"]["edl", "leader"]["spec"]["holderIdentity"] == ""
    with pytest.raises(KubeError):
        lease.check()
    with pytest.raises(ApiError):
        await client.get(PODS, "none", namespace="edl")
