"""Pods that bear a job's labels and were not made by its operator: they end nothing, succeed nothing, fill no slot."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.jobs.test_second_reconcile import WORLDS
from tests.jobs.world import World

pytestmark = pytest.mark.case("attack-2")

LEAD = {"training": "trainer", "pytorch": "worker", "easydl": "worker"}
ELSEWHERE = {"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "uid": "uid-9", "controller": True}


def running(kind: str) -> World:
    world = WORLDS[kind](0)
    world.secrets = True
    world.live()
    assert world.pods(LEAD[kind])
    return world


def forge(world: World, role: str, index: int, attempt: int, owners: list[dict[str, Any]]) -> str:
    """The pod that somebody makes who has read one of the job's pods. The seal of another name comes with the copy."""
    real = world.pods(role)[0]
    body = copy.deepcopy(world.objects["Pod", real])
    name = f"j-{role}-{index}-{attempt}"
    labels = {**body["metadata"]["labels"], "edl.dev/index": str(index), "edl.dev/attempt": str(attempt)}
    annotations = body["metadata"].get("annotations", {})
    body["metadata"] = {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": owners}
    body.pop("status", None)
    world.put("Pod", body)
    return name


FORGED = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 4), st.sampled_from([0, 3, 137, None]), st.booleans()),
    min_size=1,
    max_size=6,
    unique_by=lambda one: one[:2],
)


@pytest.mark.parametrize("kind", WORLDS)
@settings(max_examples=40, deadline=None)
@given(forged=FORGED)
def test_a_pod_of_somebody_else_never_changes_what_becomes_of_a_job(
    kind: str, forged: list[tuple[int, int, int | None, bool]]
) -> None:
    world = running(kind)
    before, pods = copy.deepcopy(world.status), world.pods(LEAD[kind])
    for index, attempt, code, owned in forged:
        name = forge(world, LEAD[kind], index, attempt, [ELSEWHERE] if owned else [])
        if code is None:
            world.run(name)
        else:
            world.end(name, code)
    strangers = {f"j-{LEAD[kind]}-{index}-{attempt}" for index, attempt, _, _ in forged}
    world.writes.clear()
    world.settle()
    assert world.status == before
    assert world.writes == []
    assert [name for name in world.pods(LEAD[kind]) if name not in strangers] == pods


@pytest.mark.parametrize("kind", WORLDS)
def test_a_slot_whose_next_name_a_stranger_has_takes_the_one_after(kind: str) -> None:
    world, role = running(kind), LEAD[kind]
    forge(world, role, 0, 1, [])
    lost = next(name for name in world.pods(role) if name.startswith(f"j-{role}-0"))
    world.lose(lost)
    world.live()
    assert f"j-{role}-0-2" in world.pods(role)
    assert world.objects["Pod", f"j-{role}-0-1"]["metadata"]["ownerReferences"] == []


def test_a_stranger_among_the_masters_is_not_counted() -> None:
    world = running("training")
    master = next(status for status in world.status["replica_statuses"] if status["role"] == "master")
    body = {
        "metadata": {
            "name": "stranger",
            "labels": {"edl.dev/job": "j", "edl.dev/job-uid": "uid-1", "edl.dev/role": "master"},
        },
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    world.put("Pod", body)
    world.set_status("stranger", "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
    world.settle()
    assert next(status for status in world.status["replica_statuses"] if status["role"] == "master") == master
    assert "no such image" not in str(world.status)
