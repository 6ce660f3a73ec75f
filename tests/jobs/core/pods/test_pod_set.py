"""The pod set, which pods come and which go: each rule of the pod set as a short table."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.jobs.core.pods.failures import Rules
from edl.jobs.core.pods.pod_set import DesiredPods, PodSetPlan, plan_pods
from edl.jobs.core.pods.slot_history import SlotHistory, SlotRecord, from_status, to_status
from edl.jobs.core.pods.slot_names import pod_name
from edl.jobs.core.pods.slots import SlotPod, State

NOW = 10_000.0
FRESH = SlotHistory()
USUAL = Rules()


def pod(index: int, state: State = "running", attempt: int = 0, **more: object) -> SlotPod:
    fields: dict[str, object] = {"node": "" if state == "pending" else "n1", "ready": state == "running"}
    fields |= {"created": 100.0 + attempt, "started": None if state == "pending" else 101.0, "ran": 60.0} | more
    name = pod_name(f"j-w-{index}", attempt)
    return SlotPod(name=name, uid=f"u-{name}", index=index, attempt=attempt, state=state, **fields)  # type: ignore[arg-type]  # the fields of SlotPod, spelled by each case


def plan(
    size: int,
    *pods: SlotPod,
    record: SlotHistory = FRESH,
    rules: Rules = USUAL,
    leavers: Mapping[str, int] = {},
    **more: object,
) -> PodSetPlan:
    wanted = DesiredPods("j", "w", size, rules, leavers=leavers, **more)  # type: ignore[arg-type]  # the fields of DesiredPods
    ordered = sorted(pods, key=lambda one: (one.index, one.attempt))
    return plan_pods(wanted, ordered, record, NOW)


def created(result: PodSetPlan) -> list[str]:
    return [one.name for one in result.create]


def deleted(result: PodSetPlan) -> list[str]:
    return [one.name for one in result.delete]


@pytest.mark.parametrize(
    ("size", "pods", "create", "delete"),
    [
        pytest.param(2, [], ["j-w-0", "j-w-1"], [], id="from nothing"),
        pytest.param(0, [], [], [], id="nothing wanted"),
        pytest.param(2, [pod(0), pod(1)], [], [], id="as wanted"),
        pytest.param(3, [pod(1)], ["j-w-0", "j-w-2"], [], id="growth fills the lowest free slot"),
        pytest.param(2, [pod(0), pod(1, leaving=True)], ["j-w-1-1"], [], id="a pod that leaves is replaced at once"),
        pytest.param(2, [pod(0), pod(1, "lost")], ["j-w-1-1"], [], id="a lost pod is replaced at once"),
        pytest.param(
            2, [pod(0), pod(1, "failed")], ["j-w-1-1"], [], id="a failed pod is replaced and kept for its log"
        ),
        pytest.param(2, [pod(0), pod(1, "succeeded")], [], [], id="a slot that is done is not replaced"),
        pytest.param(
            4, [pod(0), pod(1, "succeeded")], ["j-w-2", "j-w-3"], [], id="growth goes on after a first success"
        ),
        pytest.param(1, [pod(0), pod(1), pod(2)], [], ["j-w-2", "j-w-1"], id="the highest leave, among equals"),
        pytest.param(0, [pod(0), pod(1, "pending")], [], ["j-w-1", "j-w-0"], id="suspended"),
        pytest.param(1, [pod(0), pod(0, attempt=1)], [], ["j-w-0"], id="two pods in one slot: the later one holds it"),
        pytest.param(
            1,
            [pod(0, "failed"), pod(0, "failed", attempt=1), pod(0, attempt=2)],
            [],
            ["j-w-0"],
            id="one dead pod per slot is kept",
        ),
        pytest.param(
            1,
            [pod(0, "failed"), pod(0, "lost", attempt=1), pod(0, attempt=2)],
            [],
            ["j-w-0-1"],
            id="a failed pod tells more than a lost one",
        ),
        pytest.param(1, [pod(0, "succeeded"), pod(1)], [], [], id="the last that works is never shrunk away"),
        pytest.param(1, [pod(0, "succeeded"), pod(1), pod(2)], [], ["j-w-2"], id="but those beside it are"),
    ],
)
def test_who_comes_and_who_goes(size: int, pods: list[SlotPod], create: list[str], delete: list[str]) -> None:
    result = plan(size, *pods)
    assert (created(result), deleted(result)) == (create, delete)


@pytest.mark.parametrize(
    ("pods", "leavers", "leave"),
    [
        pytest.param([pod(0, "pending"), pod(1), pod(2)], {"n1": 1}, ["j-w-0"], id="not placed before all others"),
        pytest.param([pod(0, node="n2"), pod(1), pod(2)], {"n2": 1}, ["j-w-0"], id="where the plan needs room"),
        pytest.param(
            [pod(0, "pending", node="n2"), pod(1), pod(2)], {"n1": 1}, ["j-w-2"], id="room before a pod that starts"
        ),
        pytest.param([pod(0, "pending", node="n2"), pod(1), pod(2)], {}, ["j-w-0"], id="placed but not running"),
        pytest.param([pod(0), pod(1, ready=False), pod(2)], {}, ["j-w-1"], id="running but not ready"),
        pytest.param([pod(0), pod(1, created=200.0), pod(2)], {}, ["j-w-1"], id="the youngest"),
        pytest.param([pod(0), pod(1, node="n2"), pod(2)], {"n3": 5}, ["j-w-2"], id="a node where we have nothing"),
        pytest.param(
            [pod(0), pod(1, ready=False), pod(2)], {"n1": 1}, ["j-w-1"], id="cheapest on the node of the plan"
        ),
    ],
)
def test_who_leaves_in_a_shrink(pods: list[SlotPod], leavers: Mapping[str, int], leave: list[str]) -> None:
    assert deleted(plan(2, *pods, leavers=leavers)) == leave


def test_a_leaver_is_chosen_once_even_if_the_world_changes_before_it_goes() -> None:
    chosen = plan(2, pod(0), pod(1), pod(2))
    assert deleted(chosen) == ["j-w-2"]
    again = plan(2, pod(0), pod(1, ready=False), pod(2), record=chosen.record)
    assert deleted(again) == ["j-w-2"]
    assert again.record == chosen.record


def test_a_slot_that_grows_back_gets_a_pod_of_another_name() -> None:
    shrunk = plan(1, pod(0), pod(1))
    assert created(plan(2, pod(0), record=shrunk.record)) == ["j-w-1-1"]


def test_a_pod_that_vanished_leaves_its_name_behind() -> None:
    seen = plan(2, pod(0), pod(1))
    assert seen.record.peak == 2
    assert created(plan(2, pod(0), record=seen.record)) == ["j-w-1-1"]


def test_names_of_others_are_passed_over() -> None:
    assert created(plan(1, taken=frozenset({"j-w-0", "j-w-0-1"}))) == ["j-w-0-2"]


def test_new_pods_go_where_the_plan_puts_them() -> None:
    result = plan(3, pod(0), nodes=("n7",))
    assert [(one.name, one.node) for one in result.create] == [("j-w-1", "n7"), ("j-w-2", "")]


def test_a_failure_counts_once_however_often_it_is_seen() -> None:
    first = plan(1, pod(0, "failed", exit_code=1))
    assert [(one.count, one.final) for one in first.failures] == [(1, False)]
    again = plan(1, pod(0, "failed", exit_code=1), record=first.record)
    assert (again.failures, again.record, created(again)) == ((), first.record, created(first))


@pytest.mark.parametrize("limit", [1, 3, 6])
def test_a_slot_is_given_up_after_its_limit_of_failures(limit: int) -> None:
    record, attempt = SlotHistory(), 0
    for attempt in range(limit - 1):
        result = plan(2, pod(1), pod(0, "failed", attempt), record=record, rules=Rules(limit))
        assert created(result) == [pod_name("j-w-0", attempt + 1)]
        record = result.record
    last = pod(0, "failed", limit - 1)
    result = plan(2, pod(1), last, record=record, rules=Rules(limit))
    assert (created(result), result.given_up, result.failures[0].final) == ([], (last,), True)
    assert result.counts.failed == limit
    assert plan(2, pod(1), record=result.record, rules=Rules(limit)).given_up == (0,)
    assert created(plan(2, pod(1), record=result.record, rules=Rules(limit + 1))) == [pod_name("j-w-0", limit)]


def test_ten_minutes_of_running_start_the_count_anew() -> None:
    record = SlotHistory(1, {0: SlotRecord(4, 4, 5)}, failed=5)
    assert plan(1, pod(0, "failed", 5, ran=599.0), record=record).given_up
    result = plan(1, pod(0, "failed", 5, ran=600.0), record=record)
    assert (result.failures[0].count, created(result), result.counts.failed) == (1, ["j-w-0-6"], 6)


def test_what_is_lost_never_counts() -> None:
    record = SlotHistory()
    for attempt in range(20):
        result = plan(1, pod(0, "lost", attempt), record=record, rules=Rules(1))
        assert created(result) == [pod_name("j-w-0", attempt + 1)]
        record = result.record
    assert (record.failed, record.slot(0).failures) == (0, 0)


@pytest.mark.case("acceptance-17")
@pytest.mark.parametrize(("code", "final"), [(1, True), (127, True), (128, False), (143, False), (None, False)])
def test_permanent_exit_codes_are_not_retried(code: int | None, final: bool) -> None:
    result = plan(2, pod(0), pod(1, "failed", exit_code=code), rules=Rules(permanent=(1, 127)))
    assert (result.failures[0].final, created(result)) == (final, [] if final else ["j-w-1-1"])


def test_a_pod_that_nodes_refuse_is_not_followed_at_once() -> None:
    refused = pod(0, "lost", started=None, created=NOW - 1)
    result = plan(2, refused, pod(1))
    assert (created(result), result.requeue_at) == ([], NOW + 4)
    assert created(plan(2, pod(0, "lost", started=None, created=NOW - 5), pod(1))) == ["j-w-0-1"]


def test_counts_are_those_after_the_plan() -> None:
    result = plan(5, pod(0), pod(1, "succeeded"), pod(2, "failed"), pod(3, "pending"))
    counts = result.counts
    assert (counts.desired, counts.pending, counts.active, counts.succeeded, counts.failed) == (5, 3, 1, 1, 1)
    assert (result.ready, result.leaving) == (1, 0)
    assert plan(1, pod(0), pod(1)).leaving == 1


@pytest.mark.parametrize(
    ("size", "pods", "complete"),
    [
        (2, [pod(0, "succeeded"), pod(1, "succeeded")], True),
        (2, [pod(0, "succeeded"), pod(1)], False),
        (1, [pod(0, "succeeded"), pod(1)], False),
        (1, [pod(0, "succeeded"), pod(1, leaving=True)], True),
        (3, [pod(0, "succeeded"), pod(1, "succeeded")], False),
        (0, [], False),
        (1, [pod(0, "succeeded", leaving=True)], False),
    ],
)
def test_complete_when_every_slot_is_done(size: int, pods: list[SlotPod], complete: bool) -> None:
    assert plan(size, *pods).complete is complete


def test_done_slots_stay_done_when_their_pods_are_deleted() -> None:
    done = plan(2, pod(0, "succeeded"), pod(1))
    assert created(plan(2, pod(1), record=done.record)) == []
    assert plan(2, pod(1, "succeeded"), record=done.record).complete


def test_run_time_of_the_gone_adds_up_once() -> None:
    first = plan(1, pod(0, "failed", ran=30.0), pod(1), pod(2, ran=12.0))
    assert first.record.seconds == 42.0
    second = plan(1, pod(0, "failed", ran=30.0), pod(1), pod(2, ran=14.0), record=first.record)
    assert second.record.seconds == 42.0


def test_at_rest_the_record_is_the_same_object() -> None:
    settled = plan(2, pod(0), pod(1)).record
    assert plan(2, pod(0), pod(1), record=settled).record is settled


def test_the_record_is_small_in_status_and_comes_back_whole() -> None:
    assert to_status("w", SlotHistory()) is None
    record = plan(5, pod(0), pod(1, "failed"), pod(2, "succeeded"), pod(4)).record
    memory = to_status("w", record)
    assert msgspec.to_builtins(memory) == {
        "role": "w",
        "peak": 5,
        "done": "2",
        "pods": {"3": -1},
        "ended": {"1": 0},
        "failures": {"1": 1},
    }
    assert from_status(memory, failed=record.failed, seconds=record.seconds) == record


class World:
    """A cluster in a few lines: pods that do what hypothesis says, and the pod set that keeps up."""

    def __init__(self) -> None:
        self.pods: dict[str, SlotPod] = {}
        self.record = SlotHistory()
        self.names: set[str] = set()

    def step(self, size: int, *, crash: bool) -> PodSetPlan:
        result = plan(size, *self.pods.values(), record=self.record)
        made = result.record
        self.record = from_status(to_status("w", made), failed=made.failed, seconds=made.seconds)
        assert self.record == made
        if crash:
            return result
        for gone in result.delete:
            self.pods.pop(gone.name)
        for new in result.create:
            assert new.name not in self.names, "a name was used twice"
            self.names.add(new.name)
            self.pods[new.name] = pod(new.index, "pending", new.attempt)
        return result


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from(["running", "succeeded", "failed", "lost", "gone"]), st.booleans()
        ),
        max_size=25,
    )
)
def test_whatever_happens_the_set_settles_at_its_size(story: list[tuple[int, str, bool]]) -> None:
    world = World()
    for size, fate, crash in story:
        world.step(size, crash=crash)
        victim = next((one for one in world.pods.values() if one.live), None)
        if victim is not None and fate == "gone":
            world.record = plan(size, *world.pods.values(), record=world.record).record
            del world.pods[victim.name]
        elif victim is not None:
            world.pods[victim.name] = pod(victim.index, fate, victim.attempt)  # type: ignore[arg-type]  # a State
    for _ in range(3):
        result = world.step(3, crash=False)
    live = [one for one in world.pods.values() if one.live]
    closed = len(result.record.done) + len(result.given_up)
    assert len({one.index for one in live}) == len(live)
    assert len(live) == max(3 - closed, min(len(live), 1))
    assert (result.create, result.delete) == ((), ())
    assert world.step(3, crash=False).record == result.record


def moving(*uids: str) -> dict[str, Any]:
    return {"stale": frozenset(f"u-{uid}" for uid in uids)}


@pytest.mark.parametrize(
    ("stale", "pods", "create", "delete"),
    [
        pytest.param((), [pod(0), pod(1)], [], [], id="nobody is stale"),
        pytest.param(("j-w-0",), [pod(0), pod(1)], ["j-w-0-1"], [], id="make before break"),
        pytest.param(("j-w-0", "j-w-1"), [pod(0), pod(1)], ["j-w-0-1"], [], id="one at a time"),
        pytest.param(("j-w-0",), [pod(0), pod(0, "pending", 1), pod(1)], [], [], id="the new one starts"),
        pytest.param(("j-w-0",), [pod(0), pod(0, attempt=1, ready=False), pod(1)], [], [], id="and is not ready yet"),
        pytest.param(
            ("j-w-0",), [pod(0), pod(0, attempt=1), pod(1)], [], ["j-w-0"], id="it is ready: the old one goes"
        ),
        pytest.param(
            ("j-w-0", "j-w-1"),
            [pod(0, leaving=True), pod(0, attempt=1), pod(1)],
            ["j-w-1-1"],
            [],
            id="then the next slot moves",
        ),
        pytest.param(
            ("j-w-0", "j-w-0-1"),
            [pod(0), pod(0, "pending", 1), pod(1)],
            ["j-w-0-2"],
            ["j-w-0-1"],
            id="another wish while one is under way",
        ),
        pytest.param(
            ("j-w-0-1",), [pod(0), pod(0, attempt=1), pod(1)], [], ["j-w-0-1"], id="a wish that is taken back"
        ),
        pytest.param(
            (), [pod(0), pod(0, "lost", 1, leaving=True), pod(1)], [], [], id="what was taken back ends nobody"
        ),
        pytest.param(
            ("j-w-0",), [pod(0, "pending"), pod(1)], ["j-w-0-1"], ["j-w-0"], id="what does not run goes first"
        ),
        pytest.param(
            ("j-w-0",),
            [pod(0), pod(0, "failed", 1), pod(1)],
            ["j-w-0-2"],
            ["j-w-0-1"],
            id="the new one fails: the old one goes on",
        ),
        pytest.param(
            ("j-w-0",),
            [pod(0, "lost"), pod(0, "pending", 1), pod(1)],
            [],
            [],
            id="the old one is lost: the new one has it",
        ),
        pytest.param(
            ("j-w-0",),
            [pod(0), pod(0, "succeeded", 1), pod(1)],
            [],
            ["j-w-0"],
            id="the new one has finished the work",
        ),
    ],
)
def test_moves(stale: tuple[str, ...], pods: list[SlotPod], create: list[str], delete: list[str]) -> None:
    found = plan(2, *pods, **moving(*stale))
    assert (created(found), deleted(found)) == (create, delete)
    assert found.failures == ()


def test_a_pod_that_ends_when_its_follower_lives_has_not_failed() -> None:
    found = plan(2, pod(0, "failed"), pod(0, "pending", 1), pod(1), **moving())
    assert (found.failures, found.counts.failed, created(found)) == ((), 0, [])


def test_a_slot_that_goes_takes_its_follower_with_it() -> None:
    found = plan(1, pod(0), pod(1), pod(1, "pending", 1), in_order=True, **moving("j-w-1"))
    assert sorted(deleted(found)) == ["j-w-1", "j-w-1-1"]
    assert created(found) == []


def test_slots_in_order_are_given_up_from_the_highest_whoever_is_young() -> None:
    assert deleted(plan(2, pod(0, created=500.0), pod(1), pod(2), in_order=True)) == ["j-w-2"]


def test_a_chief_is_the_last_to_leave() -> None:
    pods = [pod(0, created=500.0), pod(1), pod(2)]
    assert deleted(plan(1, *pods, chief=True)) == ["j-w-2", "j-w-1"]
    assert deleted(plan(0, *pods, chief=True))[-1] == "j-w-0"


def test_a_slot_alone_has_no_number() -> None:
    assert created(plan(1, alone=True)) == ["j-w"]
