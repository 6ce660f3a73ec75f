"""EasyDL jobs disturbed at random: whatever happens in whatever order, they come to rest as their plan says."""

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.jobs.easydl.world import EasydlWorld, role
from tests.jobs.world import CrashError

SIZES = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plan"), SIZES, SIZES, SIZES),
        st.tuples(st.just("resources"), st.integers(1, 3), st.integers(1, 3), SIZES),
        st.tuples(st.just("entry"), st.sampled_from(["j-ps-0", "j-ps-1", "j-worker-0"]), st.integers(1, 4), SIZES),
        st.tuples(st.just("grant"), SIZES, SIZES, SIZES),
        st.tuples(st.just("lose"), st.integers(0, 9), SIZES, SIZES),
        st.tuples(st.just("fail"), st.integers(0, 9), SIZES, SIZES),
        st.tuples(st.just("look"), SIZES, SIZES, SIZES),
        st.tuples(st.just("crash"), st.integers(1, 4), SIZES, SIZES),
        st.tuples(st.just("suspend"), st.booleans(), SIZES, SIZES),
        st.tuples(st.just("forget"), SIZES, SIZES, SIZES),
    ),
    max_size=12,
)


class Walk:
    """`wanted` is what the last plan says, by role; cpu per role and per slot."""

    def __init__(self) -> None:
        self.world = EasydlWorld()
        self.world.job["spec"]["worker"]["restartCount"] = 1000  # type: ignore[index]  # it is there
        self.world.job["spec"]["parameterServer"]["restartCount"] = 1000  # type: ignore[index]  # it is there
        self.sizes = {"ps": 1, "worker": 1, "evaluator": 0}
        self.cpu = {"ps": 1, "worker": 1}
        self.entries: dict[str, int] = {}
        self.granted = 1
        self.world.planned(1, **self._spec())

    def _spec(self) -> dict[str, Any]:
        updates = [{"name": name, "resource": {"cpu": cpu}} for name, cpu in self.entries.items()]
        return {
            "parameter_server": role(self.sizes["ps"], cpu=self.cpu["ps"]),
            "worker": role(self.sizes["worker"], cpu=self.cpu["worker"]),
            "evaluator": role(self.sizes["evaluator"]),
            "resource_updation": updates,
        }

    def _submit(self) -> None:
        self.world.plan(**self._spec())
        self._give(min(max(self.granted, 1), max(self.sizes["worker"], 1)))

    def _give(self, size: int) -> None:
        self.granted = size
        workers = {"worker": size} if self.sizes["worker"] else {}
        self.world.give(size)
        assert self.world.grant is not None
        roles = {"trainer": 1, "ps": self.sizes["ps"], "evaluator": self.sizes["evaluator"], **workers}
        self.world.grant = type(self.world.grant)(size, "Started", "there is room", roles=roles)

    def step(self, name: str, first: int | str | bool, second: int, third: int) -> None:
        getattr(self, f"_{name}")(first, second, third)

    def _plan(self, servers: int, workers: int, evaluators: int) -> None:
        self.sizes = {"ps": servers, "worker": workers, "evaluator": evaluators}
        self._submit()

    def _resources(self, servers: int, workers: int, _: int) -> None:
        self.cpu = {"ps": servers, "worker": workers}
        self._submit()

    def _entry(self, name: str, cpu: int, _: int) -> None:
        self.entries[name] = cpu
        self._submit()

    def _forget(self, *_: int) -> None:
        self.entries.clear()
        self._submit()

    def _grant(self, size: int, *_: int) -> None:
        if self.sizes["worker"]:
            self._give(min(max(1, size), self.sizes["worker"]))

    def _lose(self, which: int, *_: int) -> None:
        if pods := [*self.world.pods("ps"), *self.world.pods("worker")]:
            self.world.lose(pods[which % len(pods)])

    def _fail(self, which: int, *_: int) -> None:
        if pods := [*self.world.pods("ps"), *self.world.pods("worker")]:
            self.world.end(pods[which % len(pods)], 1)

    def _look(self, *_: int) -> None:
        self.world.step()

    def _crash(self, writes: int, *_: int) -> None:
        self.world.crash_after = len(self.world.writes) + writes
        with contextlib.suppress(CrashError):
            self.world.settle()
        self.world.crash_after = None

    def _suspend(self, suspend: bool, *_: int) -> None:
        self.world.edit(lambda spec: spec.update(suspend=suspend))

    def rest(self) -> None:
        self.world.edit(lambda spec: spec.update(suspend=False))
        for _ in range(20):
            self.world.now += 600  # every pause is over
            self.world.live()
        before = len(self.world.writes)
        self.world.settle()
        assert len(self.world.writes) == before


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_whatever_happens_it_comes_to_rest_as_its_plan_says(steps: list[tuple[str, int, int, int]]) -> None:
    walk = Walk()
    for step in steps:
        walk.step(*step)
    walk.rest()
    world, workers = walk.world, walk.granted if walk.sizes["worker"] else 0
    assert len(world.pods("ps")) == walk.sizes["ps"]
    assert len(world.pods("worker")) == workers
    assert len(world.pods("trainer")) == 1
    live = [pod for name in ("trainer", "ps", "worker", "evaluator") for pod in world.pods(name)]
    assert sorted(world.leads_to(service) for service in world.names("Service")) == sorted(live)
    for name in ("ps", "worker"):
        for pod in world.pods(name):
            index = world.objects["Pod", pod]["metadata"]["labels"]["edl.dev/index"]
            wanted = walk.entries.get(f"j-{name}-{index}", walk.cpu[name])
            if world.updates().get(f"j-{name}-{index}") == "refused":  # its new pod failed: the old one goes on
                continue
            assert world.resources(pod)["cpu"] == str(wanted), pod
