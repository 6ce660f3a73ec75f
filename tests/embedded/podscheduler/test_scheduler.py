"""The pod scheduler against the API server: binding, explaining, waiting for capacity."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.embedded.cluster_fixture import PODS, Cluster, api_server, eventually, pod

from edl.embedded.podscheduler.scheduler import PodScheduler
from edl.embedded.resources import NODES
from edl.kube.rest.resource import Resource

EVENTS = Resource("", "v1", "events", "Event")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with api_server() as client, PodScheduler(client).running():
        yield Cluster(client)


async def add_node(cluster: Cluster, name: str, cpu: str = "4", **spec: Any) -> None:
    await cluster.create(NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec})
    status = {
        "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "100"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await cluster.client.patch(NODES, name, {"status": status}, subresource="status")
    # Kubernetes makes a node with a taint that its node life cycle controller takes away.
    await cluster.client.patch(NODES, name, {"spec": {"taints": None}})


def sized(name: str, cpu: str, **spec: Any) -> Any:
    return pod(name, script="true", container={"resources": {"requests": {"cpu": cpu}}}, **spec)


async def node_of(cluster: Cluster, name: str) -> str:
    found = await cluster.until(PODS, name, lambda one: one["spec"].get("nodeName"))
    return str(found["spec"]["nodeName"])


def unschedulable(found: Any) -> str:
    conditions = found.get("status", {}).get("conditions", [])
    said = [one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    return str(said[0]["message"]) if said and said[0]["reason"] == "Unschedulable" else ""


async def test_a_pod_is_bound(cluster: Cluster) -> None:
    await add_node(cluster, "a")
    await cluster.create(PODS, sized("p", "1"))
    assert await node_of(cluster, "p") == "a"

    async def reported() -> bool:
        page = await cluster.client.list(EVENTS, namespace="default")
        return any("Successfully assigned default/p to a" in str(one) for one in page.items)

    await eventually(reported)


async def test_one_that_does_not_fit_says_why_and_waits_for_room(cluster: Cluster) -> None:
    await add_node(cluster, "a")
    await cluster.create(PODS, sized("big", "3"))
    await node_of(cluster, "big")
    await cluster.create(PODS, sized("next", "2"))
    found = await cluster.until(PODS, "next", unschedulable)
    assert unschedulable(found) == "0/1 nodes are available: 1 Insufficient cpu."
    await cluster.client.delete(PODS, "big", namespace="default", grace=0)
    assert await node_of(cluster, "next") == "a"


async def test_a_new_node_helps(cluster: Cluster) -> None:
    await cluster.create(PODS, sized("p", "1"))
    found = await cluster.until(PODS, "p", unschedulable)
    assert unschedulable(found) == "no nodes available to schedule pods"
    await add_node(cluster, "a")
    assert await node_of(cluster, "p") == "a"


async def test_uncordoning_helps(cluster: Cluster) -> None:
    await add_node(cluster, "a", unschedulable=True)
    await cluster.create(PODS, sized("p", "1"))
    await cluster.until(PODS, "p", unschedulable)
    await cluster.client.patch(NODES, "a", {"spec": {"unschedulable": None}})
    assert await node_of(cluster, "p") == "a"


async def test_a_finished_pod_makes_room(cluster: Cluster) -> None:
    await add_node(cluster, "a")
    await cluster.create(PODS, sized("first", "4"))
    await node_of(cluster, "first")
    await cluster.create(PODS, sized("second", "4"))
    await cluster.until(PODS, "second", unschedulable)
    done = {"status": {"phase": "Succeeded"}}
    await cluster.client.patch(PODS, "first", done, namespace="default", subresource="status")
    assert await node_of(cluster, "second") == "a"


async def test_the_higher_priority_goes_first(cluster: Cluster) -> None:
    classes = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
    await cluster.create(classes, {"metadata": {"name": "high"}, "value": 1000})
    await cluster.create(PODS, sized("low", "4"))
    await cluster.create(PODS, sized("high", "4", priorityClassName="high"))
    for name in ("low", "high"):
        await cluster.until(PODS, name, unschedulable)
    await add_node(cluster, "a")
    assert await node_of(cluster, "high") == "a"
    assert unschedulable(await cluster.until(PODS, "low", lambda one: "cpu" in unschedulable(one)))


async def test_pods_of_another_scheduler_and_gated_pods_are_left_alone(cluster: Cluster) -> None:
    await add_node(cluster, "a")
    await cluster.create(PODS, sized("other", "1", schedulerName="another"))
    await cluster.create(PODS, sized("gated", "1", schedulingGates=[{"name": "wait"}]))
    await cluster.create(PODS, sized("mine", "1"))
    await node_of(cluster, "mine")
    for name in ("other", "gated"):
        assert "nodeName" not in (await cluster.get(PODS, name))["spec"]
    await cluster.client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, namespace="default")
    assert await node_of(cluster, "gated") == "a"


async def test_a_crowd_fills_the_nodes_exactly(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        await add_node(cluster, name, "10")
    await asyncio.gather(*(cluster.create(PODS, sized(f"p{i}", "1")) for i in range(35)))

    async def settled() -> bool:
        page = await cluster.client.list(PODS, namespace="default")
        bound = [one for one in page.items if one["spec"].get("nodeName")]
        return len(bound) == 30 and all(unschedulable(one) for one in page.items if one not in bound)

    await eventually(settled)
    page = await cluster.client.list(PODS, namespace="default")
    nodes = [one["spec"].get("nodeName") for one in page.items]
    assert [nodes.count(name) for name in ("a", "b", "c")] == [10, 10, 10]
