"""Slots and values as pure functions: epochs only grow, versions are never used twice, sizes are bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.operator.job_service.calls import parse_fence
from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.state import (
    LIMIT,
    HeldSlot,
    JobState,
    check,
    claim,
    delete,
    form,
    free_index,
    put,
    role_slots,
)
from edl.protocol.rounds import Round
from edl.protocol.slots import Slot


def test_the_same_holder_keeps_its_epoch_and_another_one_gets_the_next() -> None:
    state, first = claim(JobState(), "master", 0, "pod-a/1")
    again, same = claim(state, "master", 0, "pod-a/1")
    taken, second = claim(again, "master", 0, "pod-a/2")
    assert (first, same, second) == (1, 1, 2)
    assert again is state, "nothing changed, so there is nothing to write"
    assert taken.slots["master/0"].holder == "pod-a/2"


def test_a_new_address_of_the_same_holder_is_a_change_but_no_new_epoch() -> None:
    state, epoch = claim(JobState(), "pserver", 1, "pod/1", "10.0.0.1:7164")
    moved, same = claim(state, "pserver", 1, "pod/1", "10.0.0.2:7164")
    assert (epoch, same, moved.slots["pserver/1"].address) == (1, 1, "10.0.0.2:7164")


@pytest.mark.parametrize(("epoch", "ok"), [(1, False), (2, True), (3, False)])
def test_only_the_present_epoch_passes_the_fence(epoch: int, ok: bool) -> None:
    state, _ = claim(JobState(), "master", 0, "a/1")
    state, _ = claim(state, "master", 0, "b/1")
    if ok:
        check(state, Slot("master", 0, epoch))
        return
    with pytest.raises(RefusedError, match="stale epoch") as refused:
        check(state, Slot("master", 0, epoch))
    assert (refused.value.status, refused.value.code, refused.value.body.epoch) == (409, "stale-epoch", 2)


@pytest.mark.parametrize("text", ["", "master", "master/0", "master/x/1", "a/b/c/d"])
def test_a_fence_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="role/index/epoch"):
        parse_fence(text)


@pytest.mark.parametrize(
    ("held", "size", "pod", "wish", "gone", "taken"),
    [
        pytest.param({}, 2, "p", None, set(), 0, id="nobody there"),
        pytest.param({}, 2, "p", 1, set(), 1, id="wish is free"),
        pytest.param({1: "a"}, 2, "p", 1, set(), 0, id="wish is taken"),
        pytest.param({1: "a"}, 2, "p", 7, set(), 0, id="wish is out of range"),
        pytest.param({0: "a", 1: "b"}, 2, "p", None, set(), None, id="none free"),
        pytest.param({0: "a", 1: "b"}, 2, "p", None, {1}, 1, id="holder is gone"),
        pytest.param({0: "a", 1: "p"}, 2, "p", 0, set(), 1, id="a new process in a pod takes that pod's slot"),
        pytest.param({3: "a"}, 2, "p", None, set(), 0, id="holders beyond the size do not count"),
    ],
)
def test_which_slot_is_free(
    held: dict[int, str], size: int, pod: str, wish: int | None, gone: set[int], taken: int | None
) -> None:
    slots = {index: HeldSlot(1, f"{holder}/x") for index, holder in held.items()}
    assert free_index(slots, size, pod=pod, wish=wish, gone=gone) == taken


def test_put_compares_versions() -> None:
    state, first = put(JobState(), "queue", b"one", 0)
    state, second = put(state, "queue", b"two", first)
    with pytest.raises(RefusedError) as refused:
        put(state, "queue", b"late", first)
    assert (refused.value.status, refused.value.code, refused.value.body.version) == (412, "version", second)
    with pytest.raises(RefusedError, match="does not exist"):
        put(state, "other", b"x", 3)
    assert state.values["queue"].data == b"two"


def test_a_key_that_was_deleted_and_made_again_gets_a_new_version() -> None:
    state, first = put(JobState(), "k", b"", None)
    state, _ = delete(state, "k", first)
    state, second = put(state, "k", b"", 0)
    assert second > first
    assert delete(state, "absent", None)[0] is state


@pytest.mark.parametrize("key", ["", ".", "../x", "a/b", "ä", "x" * 101])
def test_bad_keys_are_refused(key: str) -> None:
    with pytest.raises(RefusedError, match="key"):
        put(JobState(), key, b"", None)


def test_the_limit_counts_all_values_and_a_job_over_it_can_still_shrink() -> None:
    state, _ = put(JobState(), "a", b"x" * (LIMIT - 1), None)
    with pytest.raises(RefusedError) as refused:
        put(state, "b", b"", None)
    assert (refused.value.status, refused.value.code) == (413, "too-large")
    state, _ = put(state, "a", b"x", None)
    state, _ = put(state, "b", b"", None)
    full, _ = put(JobState(), "a", b"x" * (LIMIT - 1), None)
    assert claim(full, "master", 0, "new/1")[1] == 1, "a full job can still replace its master"


def test_slots_are_listed_by_role() -> None:
    state, _ = claim(JobState(), "pserver", 1, "a/1")
    state, _ = claim(state, "master", 0, "b/1")
    assert list(role_slots(state, "pserver")) == [1]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.booleans()), max_size=40))
def test_epochs_and_versions_only_grow(steps: list[tuple[str, int, bool]]) -> None:
    state, versions = JobState(), [0]
    for holder, index, write in steps:
        before = state.slots.get(f"r/{index}")
        state, epoch = claim(state, "r", index, holder)
        assert epoch >= (before.epoch if before else 1)
        if write:
            state, version = put(state, "k", holder.encode(), None)
            assert version > versions[-1]
            versions.append(version)


@pytest.mark.parametrize(
    ("formed", "ok"),
    [
        pytest.param(Round("run", 4), True, id="the next"),
        pytest.param(Round("run", 3, over=True), True, id="the end"),
        pytest.param(Round("again", 1), True, id="another attempt"),
        pytest.param(Round("run", 3), False, id="the same number"),
        pytest.param(Round("run", 2), False, id="an older one"),
    ],
)
def test_a_round_never_goes_back(formed: Round, ok: bool) -> None:
    before = JobState(revision=5, round=Round("run", 3))
    if ok:
        after, _ = form(before, formed)
        assert (after.round, after.revision) == (formed, 6)
    else:
        with pytest.raises(RefusedError) as refused:
            form(before, formed)
        assert refused.value.code == "round"
