"""Controllers and handlers: one bad object, one bad handler, one hung reconcile, and nobody else notices."""

import asyncio
import logging
import random
import time

import pytest

from edl.kube.cache.handlers import FORGIVEN, SLICE, STRIKES, Handler
from edl.kube.cache.objects import Key
from edl.kube.controllers.controller import Controller, Source, owner_key
from edl.kube.controllers.workqueue import WorkQueue
from edl.kube.rest.errors import ApiError, ConnectionLostError, Status
from tests.kube.fake_api import FakeApi
from tests.kube.things import Heard, Meta, OwnerRef, Thing, informer_of, running, until
from tests.virtual_time import virtual


class Reconciler:
    """Counts what it is called for; may fail, hang or ask to be called again."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str]] = []
        self.raises: dict[str, Exception] = {}
        self.again: dict[str, float] = {}
        self.hangs: set[str] = set()

    async def __call__(self, key: Key) -> float | None:
        self.calls.append((asyncio.get_running_loop().time(), key[1]))
        if key[1] in self.hangs:
            await asyncio.Event().wait()
        if key[1] in self.raises:
            raise self.raises[key[1]]
        return self.again.pop(key[1], None)

    def count(self, name: str) -> int:
        return sum(name == called for _, called in self.calls)


def controller_of(api: FakeApi, reconcile: Reconciler, **options: object) -> tuple[Controller, object]:
    informer = informer_of(api)
    queue: WorkQueue[Key] = WorkQueue(base=1.0, rng=random.Random(5))
    sources = [Source(informer), Source(informer, owner_key("Thing", "test.dev"))]
    return Controller("things", sources, reconcile, queue=queue, **options), informer  # type: ignore[arg-type]


@virtual
async def test_every_object_and_every_change_is_reconciled() -> None:
    api, reconcile = FakeApi(), Reconciler()
    for name in "abc":
        api.put("things", name)
    controller, informer = controller_of(api, reconcile)
    async with running(informer, controller):
        await until(lambda: len(reconcile.calls) == 3)
        api.put("things", "b", value=1)
        api.remove("things", "c")
        await until(lambda: len(reconcile.calls) == 5)
        assert reconcile.count("b") == reconcile.count("c") == 2
        assert controller.outcomes == {"done": 5}


@virtual
async def test_news_that_may_wait_is_looked_at_together_and_other_news_at_once() -> None:
    api, reconcile = FakeApi(), Reconciler()
    informer = informer_of(api)
    source = Source(informer, delay=lambda old, new: 0.0 if old is None or new is None else 1.0)
    controller = Controller("things", [source], reconcile)
    async with running(informer, controller):
        loop = asyncio.get_running_loop()
        api.put("things", "a")
        await until(lambda: reconcile.count("a") == 1)
        began = loop.time()
        for value in range(5):
            api.put("things", "a", value=value)
            await asyncio.sleep(0.1)
        await until(lambda: reconcile.count("a") == 2)
        assert 1.0 <= loop.time() - began < 1.2
        api.put("things", "a", value=5)
        await asyncio.sleep(0.1)
        api.remove("things", "a")
        await until(lambda: reconcile.count("a") == 3)
        assert loop.time() - began < 1.5
        await asyncio.sleep(3.0)
        assert reconcile.count("a") == 3, "what came at once has taken along what waited"


@virtual
async def test_a_child_wakes_its_owner_the_old_one_too() -> None:
    api, reconcile = FakeApi(), Reconciler()
    first = {"apiVersion": "test.dev/v1", "kind": "Thing", "name": "first", "uid": "1", "controller": True}
    stranger = {**first, "apiVersion": "other.dev/v1", "name": "stranger"}
    api.put("things", "child", metadata={"ownerReferences": [first]})
    api.put("things", "foster", metadata={"ownerReferences": [stranger]})
    controller, informer = controller_of(api, reconcile)
    async with running(informer, controller):
        await until(lambda: reconcile.count("first") == 1)
        api.put("things", "child", metadata={"ownerReferences": [{**first, "name": "second", "uid": "2"}]})
        await until(lambda: reconcile.count("second") == 1)
        assert reconcile.count("first") == 2
        assert reconcile.count("stranger") == 0, "the same kind of another group is another kind"


@virtual
async def test_reconcile_says_when_to_come_back() -> None:
    api, reconcile = FakeApi(), Reconciler()
    api.put("things", "a")
    reconcile.again["a"] = 42.0
    controller, informer = controller_of(api, reconcile)
    async with running(informer, controller):
        await until(lambda: reconcile.count("a") == 2)
        (first, _), (second, _) = reconcile.calls
        assert second - first == pytest.approx(42, abs=0.01)
        await asyncio.sleep(500)
        assert reconcile.count("a") == 2
        assert controller.outcomes == {"again": 1, "done": 1}


@virtual
async def test_a_poisoned_object_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    api, reconcile = FakeApi(), Reconciler()
    reconcile.raises["poison"] = KeyError("a bug")
    reconcile.hangs.add("stuck")
    for name in ("poison", "stuck", "fine"):
        api.put("things", name)
    controller, informer = controller_of(api, reconcile, workers=1, timeout=30.0)
    async with running(informer, controller):
        await until(lambda: reconcile.count("fine") == 1)
        await asyncio.sleep(600)
        assert 4 <= reconcile.count("poison") <= 20, "it comes back, later each time"
        assert 2 <= controller.outcomes["timeout"] <= reconcile.count("stuck") <= controller.outcomes["timeout"] + 1
        assert "things default/poison: KeyError" in caplog.text
        assert "things default/stuck: not done within 30 s" in caplog.text
        del reconcile.raises["poison"]
        await until(lambda: controller.queue.failures(("default", "poison")) == 0)


@pytest.mark.parametrize(
    ("error", "outcome", "level", "trace"),
    [
        (ApiError(Status(code=409, reason="Conflict")), "conflict", logging.INFO, False),
        (ApiError(Status(code=403, reason="Forbidden")), "refused", logging.WARNING, False),
        (ConnectionLostError("reset"), "refused", logging.WARNING, False),
        (ValueError("a bug"), "error", logging.ERROR, True),
    ],
)
@virtual
async def test_failures_are_told_by_what_they_are(
    error: Exception, outcome: str, level: int, trace: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    api, reconcile = FakeApi(), Reconciler()
    reconcile.raises["a"] = error
    api.put("things", "a")
    controller, informer = controller_of(api, reconcile)
    async with running(informer, controller):
        await until(lambda: controller.outcomes[outcome] == 1)
    (record,) = [record for record in caplog.records if "default/a" in record.getMessage()][:1]
    assert record.levelno == level
    assert bool(record.exc_info) == trace


@virtual
async def test_drain_ends_the_controller_after_the_work_in_hand() -> None:
    api, reconcile = FakeApi(), Reconciler()
    for number in range(20):
        api.put("things", f"t{number}")
    controller, informer = controller_of(api, reconcile, workers=2)
    async with running(informer):
        task = asyncio.create_task(controller.run())
        await until(lambda: len(controller.queue) > 0 or bool(reconcile.calls))
        await controller.drain()
        await task
        assert not informer.handlers  # type: ignore[attr-defined]  # an informer


@virtual
async def test_the_queue_given_is_the_queue_used() -> None:
    """It is empty, which must not be taken for absent."""
    queue: WorkQueue[Key] = WorkQueue()
    assert Controller("things", [], Reconciler(), queue=queue).queue is queue


# Handlers.


def thing(number: int) -> Thing:
    return Thing(Meta(f"t{number}", "default"), number)


@virtual
async def test_a_handler_that_raises_is_counted_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi()
    informer, heard = informer_of(api), Heard()

    def raises(old: Thing | None, new: Thing | None) -> list[str]:
        if new is not None and new.value % 2:
            raise KeyError("odd")
        return [new.metadata.name] if new else []

    def raises_late(old: Thing | None, new: Thing | None):  # type: ignore[no-untyped-def]  # a generator, lazily wrong
        yield from raises(old, new)

    keys: list[str] = []
    bad = informer.add_handler("bad", raises, keys.append)
    late = informer.add_handler("late", raises_late, lambda key: None)
    informer.add_handler("heard", heard, lambda key: None)
    async with running(informer):
        for number in range(10):
            api.put("things", f"t{number}", value=number)
        await until(lambda: len(heard.story) == 10 and len(keys) == 5)
    assert bad.errors == late.errors == 5
    assert "handler bad failed for default/t1" in caplog.text


@virtual
async def test_a_slow_handler_works_in_slices() -> None:
    """Each call takes 1 ms of the loop's time: after a slice the others get their turn."""
    loop = asyncio.get_running_loop()
    calls: list[str] = []

    def slow(old: Thing | None, new: Thing | None) -> None:
        loop.advance(0.001)  # type: ignore[attr-defined]  # the virtual loop
        calls.append("slow")

    def quick(old: Thing | None, new: Thing | None) -> None:
        calls.append("quick")

    first: Handler[Thing] = Handler("slow", slow, lambda key: None)
    second: Handler[Thing] = Handler("quick", quick, lambda key: None)
    changes = [(None, thing(number)) for number in range(100)]
    first.offer(changes)
    second.offer(changes[:1])
    await until(lambda: len(calls) == 101)
    assert calls.index("quick") <= SLICE / 0.001 + 1
    assert not first.threaded


@pytest.mark.parametrize(("every", "moved"), [(FORGIVEN + 1, False), (FORGIVEN, True)])
@virtual
async def test_what_seems_slow_now_and_then_is_forgiven(every: int, moved: bool) -> None:
    """A machine that is busy, or a container that is held back, stops any call for a while."""
    loop = asyncio.get_running_loop()
    calls: list[None] = []

    def stopped_at_times(old: Thing | None, new: Thing | None) -> None:
        calls.append(None)
        if len(calls) % every == 0:
            loop.advance(0.1)  # type: ignore[attr-defined]  # the virtual loop

    handler: Handler[Thing] = Handler("stopped", stopped_at_times, lambda key: None)
    handler.offer([(None, thing(1))] * (every * 5))
    await until(lambda: handler.threaded or len(calls) == every * 5)
    assert handler.threaded == moved
    handler.stop()


async def test_a_handler_that_blocks_is_moved_out_of_the_way() -> None:
    """Real time and real blocking: the others do not wait for it, nothing is lost, and the order is kept."""
    keys: list[int] = []
    behind: list[int] = []

    def blocks(old: Thing | None, new: Thing | None) -> list[int]:
        time.sleep(0.06)
        return [new.value] if new else []

    def quick(old: Thing | None, new: Thing | None) -> None:
        behind.append(len(keys))

    blocking: Handler[Thing] = Handler("blocks", blocks, keys.append, slow_after=0.05)
    other: Handler[Thing] = Handler("quick", quick, lambda key: None)
    changes = [(None, thing(number)) for number in range(12)]
    blocking.offer(changes)
    other.offer(changes)
    await until(lambda: len(behind) == 12 and blocking.threaded, within=60)
    assert behind[-1] <= STRIKES, "when the other was done with all, this one was at its first ones"
    blocking.offer([(None, thing(12))])
    await until(lambda: len(keys) == 13, within=60)
    assert keys == list(range(13))
    blocking.stop()


@virtual
async def test_owner_references_of_another_shape_are_no_trouble() -> None:
    child = Thing(Meta("child", "default", owner_references=(OwnerRef("v1", "Thing", "x", "u", False),)))
    keys = owner_key("Thing", "")
    assert not list(keys(None, child) or ())
    assert not list(keys(None, None) or ())
