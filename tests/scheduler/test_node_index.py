"""The quick way to find a node, with numpy and heaps, against the plain one and against looking at every node."""

from typing import Any

import pytest

from edl.scheduler.placement import node_index
from edl.scheduler.placement.cluster_state import ClusterState
from edl.scheduler.plan import plan
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.builder import build_snapshot
from edl.scheduler.snapshot.objects import from_plain
from edl.scheduler.snapshot.types import NOWHERE, Shape
from tests.scheduler.makers import NOW, elastic_job, node, planned, pod, snapshot, training_job
from tests.scheduler.random_worlds import chance_of, world


@pytest.mark.parametrize("policy", ["cfs", "fulfillment"])
def test_plans_are_the_same_with_numpy_and_without(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(80):
        taken = build_snapshot(from_plain(world(seed)))
        settings = Settings(policy=policy)
        monkeypatch.setattr(node_index, "PLAIN_UP_TO", 10_000)
        plain = plan(taken, now=NOW, settings=settings)
        monkeypatch.setattr(node_index, "PLAIN_UP_TO", -1)
        assert plan(taken, now=NOW, settings=settings) == plain, seed


def test_a_large_cluster_is_planned_alike() -> None:
    """More nodes than the plain way is for, of many sizes, with servers beside the instances and pods of others."""
    chance = chance_of(7)
    nodes = [node(f"n{number:03}", cpu=chance.randint(2, 30), gpu=chance.choice((0, 0, 4))) for number in range(130)]
    webs = [pod(f"web-{number:03}", f"n{number:03}", cpu=chance.randint(1, 2)) for number in range(0, 130, 3)]
    servers = {"min-instance": 3, "resources": {"requests": {"cpu": "2"}}}
    jobs = [training_job(f"t{number}", 2, 30, cpu=chance.randint(1, 4), pserver=servers) for number in range(12)]
    jobs += [elastic_job(f"e{number}", 1, 20, cpu=1, gpu=1) for number in range(5)]
    objects = [*nodes, *webs, *jobs]
    quick = planned(objects)
    before, node_index.PLAIN_UP_TO = node_index.PLAIN_UP_TO, 10_000
    try:
        assert planned(objects) == quick
    finally:
        node_index.PLAIN_UP_TO = before
    assert sum(job.target for job in quick.jobs) > 100


def best_by_looking(cluster: ClusterState, shape: Shape, now: bool, guard: Shape | None) -> int:
    """Every node, every time."""
    fitting = [node for node in cluster.allowed_nodes(shape.node_match) if cluster.fits(node, shape, now)]
    return min(fitting, key=lambda node: cluster.node_index.key(node, shape, guard), default=NOWHERE)


@pytest.mark.parametrize("plain_up_to", [10_000, -1], ids=["plain", "numpy"])
def test_instances_go_where_looking_at_all_nodes_would_put_them(
    plain_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random walk of taking, giving back and rolling back."""
    monkeypatch.setattr(node_index, "PLAIN_UP_TO", plain_up_to)
    chance = chance_of(3)
    nodes = [node(f"n{number}", cpu=chance.randint(1, 9), gpu=chance.choice((0, 2))) for number in range(12)]
    jobs = [elastic_job("a", 1, 1), elastic_job("b", 1, 1, cpu=2, gpu=1), elastic_job("c", 1, 1, cpu=3)]
    taken = snapshot(nodes, jobs)
    shapes = [job.roles[0].shape for job in taken.jobs]
    cluster = ClusterState(taken, Settings(), NOW)
    held: list[tuple[int, Shape]] = []
    for _ in range(600):
        mark = cluster.mark()
        shape, now = chance.choice(shapes), chance.random() < 0.7
        found = cluster.find(shape, now=now)
        assert found == best_by_looking(cluster, shape, now, None)
        if found != NOWHERE and chance.random() < 0.7:
            cluster.adjust(found, shape, (), -1 if now else 0, -1)
            if now and chance.random() < 0.9:
                held.append((found, shape))
            else:
                cluster.rollback(mark)
        if held and chance.random() < 0.45:
            where, shape = held.pop(chance.randrange(len(held)))
            cluster.adjust(where, shape, (), 1, 1)


def test_pods_beside_instances_spoil_no_more_than_the_best_node_would() -> None:
    chance = chance_of(5)
    nodes = [node(f"n{number}", cpu=chance.randint(4, 30)) for number in range(20)]
    job = training_job("a", 1, 9, cpu=5, pserver={"min-instance": 1, "resources": {"requests": {"cpu": "4"}}})
    taken = snapshot(nodes, job)
    roles = {role.name: role.shape for role in taken.jobs[0].roles}
    cluster = ClusterState(taken, Settings(), NOW)
    for _ in range(200):
        found = cluster.find(roles["pserver"], now=True, guard=roles["trainer"])
        best = best_by_looking(cluster, roles["pserver"], True, roles["trainer"])
        assert found == best
        if found == NOWHERE:
            break
        cluster.adjust(found, roles["pserver"], (), -1, -1)
    assert found == NOWHERE


def test_rolling_back_restores_everything() -> None:
    taken = snapshot(node("n1", cpu=8), node("n2", cpu=8), elastic_job("a", 1, 4))
    cluster = ClusterState(taken, Settings(), NOW)
    shape = taken.jobs[0].roles[0].shape
    before = (
        list(cluster.free_now),
        list(cluster.free_later),
        cluster.spare_now.copy(),
    )
    mark = cluster.mark()
    for _ in range(5):
        cluster.adjust(cluster.find(shape, now=True), shape, (), -1, -1)
    cluster.adjust(0, shape, (), 0, 1)
    cluster.rollback(mark)
    assert (cluster.free_now, cluster.free_later, cluster.spare_now) == before
