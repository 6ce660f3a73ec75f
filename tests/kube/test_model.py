"""The informer against a store with random faults: it converges, and every change that lasts is reported.

The handler keeps a copy of its own, made only of the changes that it hears. The informer's cache, the handler's copy
and the server must agree whenever the faults have stopped; in between no object may ever go back in time.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import key_of
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.transport import Request, Response
from tests.kube.fake_api import Answer, FakeApi, answering, line, refuse, status, streaming
from tests.kube.things import Thing, informer_of, truth, until, values
from tests.virtual_time import VirtualLoop

COLOURS = ("red", "blue")
NAMES = st.sampled_from([f"t{number}" for number in range(7)])
WATCH_FAULTS = st.sampled_from(
    [
        streaming(),
        streaming(b'{"type":"ADDED","object":{"meta', then_silence=True),
        streaming(b"garbage\n"),
        streaming(line("ERROR", status(410, "Expired"))),
        streaming(line("ERROR", status(500, "InternalError"))),
        *answering(refuse(410, "Gone"), refuse(429, retry_after="3"), refuse(500), ConnectionLostError("reset")),
    ]
)
LIST_FAULTS = st.sampled_from(answering(refuse(500), refuse(410, "Expired"), ConnectionLostError("reset")))


class Cluster(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.api = FakeApi()
        self.reported: dict[tuple[str, str], Thing] = {}
        self.newest: dict[tuple[str, str], int] = {}
        self.values = iter(range(1, 10_000))
        self.informer: Informer[Thing] = self.run(self.start())

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(main)

    async def start(self) -> Informer[Thing]:
        informer = informer_of(self.api, page=3, idle=20.0)
        informer.add_handler("copy", self.hear, lambda key: None)
        self.task = asyncio.create_task(informer.run())
        return informer

    def hear(self, old: Thing | None, new: Thing | None) -> None:
        thing = new or old
        assert thing is not None
        key = key_of(thing)
        known = self.reported.get(key)
        assert known == old, "every change starts from what was told last"
        if new is None:
            del self.reported[key]
            return
        assert old is None or old.metadata.uid == new.metadata.uid, "another object of the same name is no change"
        version = int(new.metadata.resource_version)
        assert version > self.newest.get(key, 0), "never back in time"
        self.newest[key] = version
        self.reported[key] = new

    # What happens in the cluster.

    @initialize(count=st.integers(0, 7))
    def begin(self, count: int) -> None:
        for number in range(count):
            self.write(f"t{number}")

    @rule(name=NAMES)
    def write(self, name: str) -> None:
        value = next(self.values)
        labels = {"colour": COLOURS[value // 16 % 2]}
        self.api.put("things", name, value=value, spec={"level": value // 12}, metadata={"labels": labels})

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if ("default", name) in self.api.objects.get("things", {}):
            self.api.remove("things", name)

    @rule(name=NAMES)
    def replace_by_a_namesake(self, name: str) -> None:
        self.delete(name)
        self.write(name)

    # What happens on the way.

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.3, 5.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule()
    def history_is_forgotten(self) -> None:
        self.api.compact()

    @rule()
    def watches_end(self) -> None:
        self.api.hang_up()

    @rule(faults=st.lists(WATCH_FAULTS, min_size=1, max_size=4))
    def watches_will_fail(self, faults: list[Answer]) -> None:
        self.api.next_watches.extend(faults)

    @rule(faults=st.lists(LIST_FAULTS, min_size=1, max_size=3), after=st.integers(0, 2))
    def lists_will_fail(self, faults: list[Answer], after: int) -> None:
        self.api.next_lists.extend([*[self.api._list] * after, *faults])

    @rule()
    def a_list_will_be_old(self) -> None:
        """The whole list: a later page is of the list that it continues, however old its server is."""
        whole = self.run(self.api._list(Request("GET", "/apis/test.dev/v1/things")))

        async def old(request: Request) -> Response:
            return await self.api._list(request) if "continue" in request.query else whole

        self.api.next_lists.append(old)

    @rule(keep=st.integers(0, 5), cut=st.integers(1, 40), repeat=st.booleans())
    def a_watch_will_break_in_the_middle(self, keep: int, cut: int, repeat: bool) -> None:
        """It replays what the watcher missed (some of it twice), and ends in the middle of a line."""

        async def broken(request: Request) -> Response:
            since = int(request.query["resourceVersion"])
            missed = [line(kind, item) for version, _, kind, item in self.api.history if version > since]
            if since < self.api.compacted:
                return refuse(410, "Gone")

            async def said() -> AsyncIterator[bytes]:
                yield b"".join(missed[:keep] * (1 + repeat))
                yield b"".join(missed[keep : keep + 1])[:-cut]
                raise ConnectionLostError("broke")

            return Response(200, chunks=said())

        self.api.next_watches.append(broken)

    @rule(version=st.integers(-5, 0))
    def bookmarks_arrive_late_and_twice(self, version: int) -> None:
        late = self.api.bookmark(max(1, self.api.version + version))
        self.api.say(late + self.api.bookmark() + late)

    @rule(seconds=st.sampled_from([1.0, 100.0]), names=st.lists(NAMES, max_size=4))
    def nobody_can_be_reached_for_a_while(self, seconds: float, names: list[str]) -> None:
        with self.api.gap():
            for name in names:
                self.replace_by_a_namesake(name) if seconds > 1 else self.write(name)
            self.run(asyncio.sleep(seconds))

    # What must hold.

    @precondition(lambda self: self.informer.synced)
    @rule()
    def when_it_calms_down_all_agree(self) -> None:
        self.settle()

    @invariant()
    def the_cache_is_consistent(self) -> None:
        self.informer._store.validate()
        for thing in self.informer.all():
            said = (thing.spec.level, thing.metadata.labels["colour"])
            assert said == (thing.value // 12, COLOURS[thing.value // 16 % 2]), "what was taken over is of this version"
        assert not self.task.done()
        assert self.informer.handlers[0].errors == 0, "the copy contradicted what it was told"

    def settle(self) -> None:
        self.api.next_lists.clear()
        self.api.next_watches.clear()
        self.run(until(lambda: values(self.informer) == truth(self.api), within=7200))
        self.run(until(lambda: values_of(self.reported) == truth(self.api), within=60))
        self.run(until(lambda: self.informer.failure is None, within=7200))

    def teardown(self) -> None:
        self.settle()
        self.task.cancel()
        self.run(asyncio.wait({self.task}))
        self.run(self.loop.shutdown_asyncgens())
        self.loop.close()


def values_of(reported: dict[tuple[str, str], Thing]) -> dict[str, int]:
    return {name: thing.value for (_, name), thing in reported.items()}


TestCluster = Cluster.TestCase
TestCluster.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def test_a_long_life_with_one_seed() -> None:
    """One life of thousands of steps: what only shows after many gaps in a row."""
    cluster, rng = Cluster(), random.Random(11)
    cluster.begin(5)
    faults: list[Any] = [
        lambda: cluster.write(f"t{rng.randrange(7)}"),
        lambda: cluster.write(f"t{rng.randrange(7)}"),
        lambda: cluster.replace_by_a_namesake(f"t{rng.randrange(7)}"),
        lambda: cluster.delete(f"t{rng.randrange(7)}"),
        lambda: cluster.time_passes(rng.random() * 3),
        cluster.history_is_forgotten,
        cluster.watches_end,
        lambda: cluster.bookmarks_arrive_late_and_twice(-rng.randrange(5)),
        lambda: cluster.a_watch_will_break_in_the_middle(rng.randrange(4), rng.randrange(1, 40), rng.random() < 0.5),
        cluster.a_list_will_be_old,
    ]
    for step in range(3000):
        rng.choice(faults)()
        cluster.the_cache_is_consistent()
        if step % 100 == 0:
            cluster.settle()
    cluster.teardown()


@pytest.mark.parametrize("fault", [refuse(500), refuse(410, "Expired"), ConnectionLostError("reset")], ids=str)
def test_an_old_list_after_one_that_broke_off_takes_nothing_back(fault: Response | Exception) -> None:
    """The pages of the first are in the cache already; a list from before them must not delete what they brought."""
    cluster = Cluster()
    cluster.begin(0)
    cluster.lists_will_fail(faults=answering(fault), after=1)
    cluster.a_list_will_be_old()
    cluster.a_list_will_be_old()
    cluster.nobody_can_be_reached_for_a_while(seconds=1.0, names=["t0", "t1", "t2"])
    cluster.history_is_forgotten()
    cluster.write("t3")
    cluster.time_passes(5.0)
    cluster.teardown()
