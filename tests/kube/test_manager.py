"""Start and stop in the only safe order, standby and leader, probes and metrics."""

import asyncio
import gc
import random
from collections.abc import Iterator

import aiohttp
import pytest

from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import Key
from edl.kube.controllers.controller import Controller, Source
from edl.kube.controllers.lease import Lease, LeaseLostError
from edl.kube.controllers.manager import Manager
from edl.kube.controllers.recorder import EventRecorder, Reference
from edl.kube.controllers.workqueue import WorkQueue
from edl.kube.rest.transport import Request, Response
from tests.kube.fake_api import FakeApi, answering, refuse
from tests.kube.things import Thing, client_of, informer_of, until
from tests.virtual_time import virtual


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    """The manager freezes what exists; the tests that follow want their garbage collected."""
    yield
    gc.unfreeze()


class Replica:
    """One operator process: informer, controller, recorder and lease under a manager."""

    def __init__(self, api: FakeApi, name: str, **options: object) -> None:
        self.name = name
        self.reconciled: list[str] = []
        self.slow = 0.0
        client = client_of(api)
        self.informer: Informer[Thing] = informer_of(api)
        queue: WorkQueue[Key] = WorkQueue(rng=random.Random(1))
        self.controller = Controller("things", [Source(self.informer)], self.reconcile, workers=1, queue=queue)
        self.recorder = EventRecorder(client, controller="edl.dev/test", instance=name)
        clock = asyncio.get_running_loop().time
        self.lease = Lease(client, name="leader", namespace="edl", identity=name, clock=clock)
        self.manager = Manager(
            informers=[self.informer],
            controllers=[self.controller],
            lease=self.lease,
            recorder=self.recorder,
            **options,  # type: ignore[arg-type]  # as the manager takes them
        )
        self.task = asyncio.create_task(self.manager.run())

    async def reconcile(self, key: Key) -> None:
        await asyncio.sleep(self.slow)
        self.reconciled.append(key[1])
        self.recorder.record(Reference("v1", "Thing", key[1], key[0], key[1]), "Done", "well")

    async def stop(self) -> None:
        self.manager.stop()
        await asyncio.wait_for(self.task, 60)


def cluster(count: int) -> FakeApi:
    api = FakeApi()
    for number in range(count):
        api.put("things", f"t{number}")
    return api


@virtual
async def test_a_standby_is_warm_and_takes_over_at_once() -> None:
    api = cluster(3)
    first = Replica(api, "a")
    await until(lambda: len(first.reconciled) == 3)
    second = Replica(api, "b")
    await until(lambda: second.informer.synced)
    await asyncio.sleep(60)
    assert (first.manager.is_leading, second.manager.is_leading) == (True, False)
    assert second.reconciled == []
    lists = len([request for request in api.asked(watch=False) if "things" in request.path])
    stopped = asyncio.get_running_loop().time()
    await first.stop()
    await until(lambda: len(second.reconciled) == 3)
    assert asyncio.get_running_loop().time() - stopped < 1
    assert len([request for request in api.asked(watch=False) if "things" in request.path]) == lists, "no new list"
    await second.stop()


@virtual
async def test_nothing_is_reconciled_before_the_caches_are_complete() -> None:
    api = cluster(3)
    api.next_lists.extend(answering(*[refuse(500)] * 20))
    replica = Replica(api, "a")
    await until(lambda: not api.next_lists)
    assert replica.reconciled == []
    assert "leases" not in api.objects, "nor is the lease asked for"
    await until(lambda: len(replica.reconciled) == 3)
    await replica.stop()


@virtual
async def test_stopping_finishes_the_work_in_hand_then_gives_the_lease_back() -> None:
    api = cluster(5)
    replica = Replica(api, "a", drain=30.0)
    replica.slow = 2.0
    await until(lambda: len(replica.reconciled) == 1)
    await replica.stop()
    assert len(replica.reconciled) == 5
    assert api.objects["leases"]["edl", "leader"]["spec"]["holderIdentity"] == ""
    assert len(api.objects["events"]) == 5, "and what happened is on record"
    assert not replica.lease.held


@pytest.mark.case("acceptance-28")
@virtual
async def test_the_lease_is_given_back_before_the_last_events_are_written() -> None:
    """Events may take seconds when the server is slow; whoever leads next must not wait for them."""
    api = cluster(1)
    first = Replica(api, "a")
    await until(lambda: first.manager.is_leading)
    second = Replica(api, "b")
    await asyncio.sleep(20)
    first.recorder.record(Reference("v1", "Thing", "t0", "default", "t0"), "Late", "well")
    api.next_writes.append(hung)
    await until(lambda: not api.next_writes)
    stopped = asyncio.get_running_loop().time()
    first.manager.stop()
    await until(lambda: second.manager.is_leading)
    assert asyncio.get_running_loop().time() - stopped < 1
    assert not first.task.done()
    await asyncio.wait_for(first.task, 60)
    await second.stop()


async def hung(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


@virtual
async def test_work_that_does_not_end_in_time_is_cancelled() -> None:
    api = cluster(5)
    replica = Replica(api, "a", drain=4.0)
    replica.slow = 60.0
    await until(lambda: replica.controller.queue.working == 1)
    started = asyncio.get_running_loop().time()
    await replica.stop()
    assert asyncio.get_running_loop().time() - started < 10
    assert replica.reconciled == []
    assert api.objects["leases"]["edl", "leader"]["spec"]["holderIdentity"] == ""


@virtual
async def test_a_lost_lease_ends_the_process() -> None:
    api = cluster(1)
    replica = Replica(api, "a")
    await until(lambda: replica.manager.is_leading)
    api.put("leases", "leader", "edl", spec={"holderIdentity": "thief", "leaseDurationSeconds": 15})
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(replica.task, 10)
    assert not replica.manager.is_leading


@virtual
async def test_a_part_that_fails_ends_the_process_and_the_lease() -> None:
    async def fail() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("the port is taken")

    api = cluster(1)
    replica = Replica(api, "a", leading=[fail])
    with pytest.raises(RuntimeError, match="the port is taken"):
        await asyncio.wait_for(replica.task, 30)
    assert api.objects["leases"]["edl", "leader"]["spec"]["holderIdentity"] == ""


@virtual
async def test_stopping_while_it_still_waits() -> None:
    api = cluster(1)
    with api.gap():
        replica = Replica(api, "a")
        await asyncio.sleep(5)
        await replica.stop()
    leader = Replica(api, "b")
    await until(lambda: leader.manager.is_leading)
    standby = Replica(api, "c")
    await until(lambda: standby.informer.synced)
    await standby.stop()
    assert leader.manager.is_leading
    await leader.stop()


@virtual
async def test_without_a_lease_it_leads_at_once() -> None:
    api = cluster(2)
    informer = informer_of(api)
    seen: list[str] = []

    async def reconcile(key: Key) -> None:
        seen.append(key[1])

    manager = Manager(informers=[informer], controllers=[Controller("things", [Source(informer)], reconcile)])
    task = asyncio.create_task(manager.run())
    await until(lambda: len(seen) == 2)
    manager.stop()
    await task


async def test_probes_and_metrics_over_http() -> None:
    api = cluster(3)
    down = api.gap()
    down.__enter__()
    replica = Replica(api, "a", address=("127.0.0.1", 0))
    await until(lambda: replica.manager.url is not None, within=20)
    async with aiohttp.ClientSession() as session:

        async def ask(path: str) -> tuple[int, str]:
            async with session.get(f"{replica.manager.url}{path}") as answer:
                return answer.status, await answer.text()

        assert await ask("/healthz") == (200, "ok\n")
        code, text = await ask("/readyz")
        assert code == 503
        assert "things: not synced" in text
        down.__exit__(None, None, None)
        await until(lambda: len(replica.reconciled) == 3, within=30)
        code, text = await ask("/readyz")
        assert code == 200
        assert "things: 3 objects" in text
        assert "leading: True" in text
        _, metrics = await ask("/metrics")
        for wanted in (
            'edl_cache_objects{resource="things.test.dev"} 3.0',
            'edl_cache_synced{resource="things.test.dev"} 1.0',
            'edl_cache_age_seconds{resource="things.test.dev"}',
            'edl_cache_watches_total{resource="things.test.dev"}',
            'edl_cache_malformed_total{resource="things.test.dev"} 0.0',
            'edl_queue_depth{controller="things"} 0.0',
            'edl_reconciles_total{controller="things",outcome="done"} 3.0',
            'edl_reconcile_seconds_count{controller="things"} 3.0',
            'edl_queue_seconds_bucket{controller="things",le="+Inf"} 3.0',
            'edl_handler_errors_total{handler="things",resource="things.test.dev"} 0.0',
        ):
            assert wanted in metrics
    await replica.stop()
