"""Garbage collection, endpoints, namespaces and the life cycle of nodes, against the API server."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.embedded.cluster_fixture import PODS, Cluster, api_server, eventually, pod
from tests.embedded.controllers.stage import CONFIG_MAPS, NAMESPACES, NODES, SERVICES, SLICES, Stage, stage

from edl.embedded.controllers.run import controllers
from edl.kube.rest.resource import Resource

ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")


@pytest.fixture
async def collector() -> AsyncIterator[Cluster]:
    async with api_server() as client, controllers(client, only=["garbage-collector"]):
        yield Cluster(client)


async def config(
    cluster: Cluster, name: str, *owners: Any, finalizers: tuple[str, ...] = (), block: bool = True
) -> Any:
    references = [
        {
            "apiVersion": "v1",
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    meta = {"name": name, "ownerReferences": references, "finalizers": list(finalizers)}
    return await cluster.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


async def test_background_deletion_takes_the_whole_tree(collector: Cluster) -> None:
    root = await config(collector, "root")
    child = await config(collector, "child", root)
    await config(collector, "grandchild", child)
    await config(collector, "other")
    await collector.client.delete(CONFIG_MAPS, "root", namespace="default", propagation="Background")
    for name in ("root", "child", "grandchild"):
        await collector.gone(CONFIG_MAPS, name)
    assert await collector.get(CONFIG_MAPS, "other") is not None


async def test_foreground_deletion_waits_for_what_blocks(collector: Cluster) -> None:
    root = await config(collector, "root")
    await config(collector, "child", root, finalizers=("example.com/hold",))
    await config(collector, "free", root, block=False)
    await collector.client.delete(CONFIG_MAPS, "root", namespace="default", propagation="Foreground")
    await collector.until(CONFIG_MAPS, "child", lambda one: one["metadata"].get("deletionTimestamp"))
    await collector.gone(CONFIG_MAPS, "free")
    waiting = await collector.get(CONFIG_MAPS, "root")
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    await collector.client.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}}, namespace="default")
    await collector.gone(CONFIG_MAPS, "root")


async def test_orphans_stay(collector: Cluster) -> None:
    root = await config(collector, "root")
    await config(collector, "child", root)
    await collector.client.delete(CONFIG_MAPS, "root", namespace="default", propagation="Orphan")
    await collector.gone(CONFIG_MAPS, "root")
    child = await collector.get(CONFIG_MAPS, "child")
    assert not child["metadata"].get("ownerReferences")


async def test_one_owner_that_is_left_is_enough(collector: Cluster) -> None:
    one, other = await config(collector, "one"), await config(collector, "other")
    await config(collector, "child", one, other)
    await collector.client.delete(CONFIG_MAPS, "one", namespace="default")
    child = await collector.until(CONFIG_MAPS, "child", lambda found: len(found["metadata"]["ownerReferences"]) == 1)
    assert child["metadata"]["ownerReferences"][0]["name"] == "other"


async def test_a_namesake_is_no_owner(collector: Cluster) -> None:
    root = await config(collector, "root")
    root["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    await config(collector, "child", root)
    await collector.gone(CONFIG_MAPS, "child")
    assert await collector.get(CONFIG_MAPS, "root") is not None


async def test_an_owner_in_another_namespace_does_not_count(collector: Cluster) -> None:
    elsewhere = f"other-{os.urandom(3).hex()}"
    await collector.create(NAMESPACES, {"metadata": {"name": elsewhere}})
    root = await collector.create(CONFIG_MAPS, {"kind": "ConfigMap", "metadata": {"name": "root"}}, elsewhere)
    root["kind"] = "ConfigMap"
    await config(collector, "child", root)
    await collector.gone(CONFIG_MAPS, "child")


async def test_custom_resources_are_followed_as_they_come(collector: Cluster) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    await collector.create(CRDS, {"metadata": {"name": "things.example.com"}, "spec": spec})
    things = Resource("example.com", "v1", "things", "Thing")

    async def served() -> bool:
        try:
            await collector.create(things, {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})
        except Exception:
            return False
        return True

    await eventually(served)
    thing = await collector.get(things, "t")
    reference = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": thing["metadata"]["uid"]}
    meta = {"name": "child", "ownerReferences": [reference]}
    await collector.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    await collector.client.delete(things, "t", namespace="default")
    await collector.gone(CONFIG_MAPS, "child")


async def test_endpoints_follow_pods(tmp_path: object) -> None:
    async with stage("endpointslice") as play:
        spec = {"selector": {"app": "x"}, "clusterIP": "None", "ports": [{"name": "web", "port": 80}]}
        await play.create(SERVICES, {"metadata": {"name": "svc"}, "spec": spec})
        play.unready.add("b")
        for name in ("a", "b"):
            await play.create(PODS, pod(name, script="true", metadata={"labels": {"app": "x"}}))

        async def reported() -> bool:
            return await ready_pods(play) == {"a": True, "b": False}

        await eventually(reported)
        play.unready.clear()
        await play.client.delete(PODS, "a", namespace="default")

        async def again() -> bool:
            return await ready_pods(play) == {"b": True}

        await eventually(again)
        (one,) = await slices(play)
        assert one["metadata"]["labels"]["kubernetes.io/service-name"] == "svc"
        assert "service.kubernetes.io/headless" in one["metadata"]["labels"]
        assert one["ports"] == [{"name": "web", "port": 80, "protocol": "TCP"}]


async def slices(play: Stage) -> list[Any]:
    page = await play.client.list(SLICES, namespace="default", labels={"kubernetes.io/service-name": "svc"})
    return page.items


async def ready_pods(play: Stage) -> dict[str, bool]:
    ends = [end for one in await slices(play) for end in one.get("endpoints") or ()]
    return {end["targetRef"]["name"]: end["conditions"]["ready"] for end in ends}


async def test_a_namespace_is_furnished_and_emptied() -> None:
    async with stage("namespace", authority="PEM") as play:
        await play.create(NAMESPACES, {"metadata": {"name": "team"}})
        await play.until(ACCOUNTS, "default", lambda one: one is not None, "team")
        published = await play.until(CONFIG_MAPS, "kube-root-ca.crt", lambda one: one is not None, "team")
        assert published["data"] == {"ca.crt": "PEM"}
        await play.create(CONFIG_MAPS, {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}}, "team")
        await play.create(PODS, pod("p", script="true"), "team")
        await play.client.delete(NAMESPACES, "team")
        held = await play.until(CONFIG_MAPS, "c", lambda one: one["metadata"].get("deletionTimestamp"), "team")
        assert held["metadata"]["finalizers"] == ["example.com/hold"]
        assert (await play.get(NAMESPACES, "team"))["status"]["phase"] == "Terminating"
        await play.client.patch(CONFIG_MAPS, "c", {"metadata": {"finalizers": None}}, namespace="team")
        await play.gone(NAMESPACES, "team")


async def add_node(cluster: Cluster, name: str) -> None:
    await cluster.create(NODES, {"metadata": {"name": name}})
    ready = {
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}
    }
    await cluster.client.patch(NODES, name, ready, subresource="status")
    await beat(cluster, name, "2020-01-01T00:00:00.000000Z")


async def beat(cluster: Cluster, name: str, when: str) -> None:
    spec = {"holderIdentity": name, "renewTime": when}
    if await cluster.get(LEASES, name, "kube-node-lease") is None:
        await cluster.create(LEASES, {"metadata": {"name": name}, "spec": spec}, "kube-node-lease")
    else:
        await cluster.client.patch(LEASES, name, {"spec": spec}, namespace="kube-node-lease")


def taints(one: Any) -> list[str]:
    return [f"{taint['key']}:{taint['effect']}" for taint in one["spec"].get("taints") or ()]


async def test_a_node_that_falls_silent_is_lost_and_its_pods_leave() -> None:
    tolerating = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}]
    hasty = [{**tolerating[0], "tolerationSeconds": 0}]
    async with stage("node-lifecycle", plays=False, node_grace=1.0) as play:
        await add_node(play, "lost")
        await add_node(play, "alive")
        await play.create(PODS, pod("hasty", node="lost", script="true", tolerations=hasty))
        await play.create(PODS, pod("patient", node="lost", script="true", tolerations=tolerating))
        await play.create(PODS, pod("elsewhere", node="alive", script="true", tolerations=hasty))
        beats = 0

        async def keep_alive_until_lost() -> bool:
            nonlocal beats
            beats += 1
            await beat(play, "alive", f"2020-01-01T00:00:00.{beats:06d}Z")
            return "node.kubernetes.io/unreachable:NoExecute" in taints(await play.get(NODES, "lost"))

        await eventually(keep_alive_until_lost)
        leaving = await play.until(PODS, "hasty", lambda one: one is None or one["metadata"].get("deletionTimestamp"))
        condition = {one["type"]: one for one in leaving["status"]["conditions"]}["DisruptionTarget"]
        assert (condition["status"], condition["reason"]) == ("True", "DeletionByTaintManager")
        for name in ("patient", "elsewhere"):
            assert "deletionTimestamp" not in (await play.get(PODS, name))["metadata"]
        assert taints(await play.get(NODES, "alive")) == []
        await beat(play, "lost", "2021-01-01T00:00:00.000000Z")
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await play.client.patch(NODES, "lost", ready, kind="strategic", subresource="status")
        await play.until(NODES, "lost", lambda one: not taints(one))


async def test_cordon_is_a_taint_and_pods_of_a_deleted_node_are_collected() -> None:
    async with stage("node-lifecycle", plays=False) as play:
        await add_node(play, "n")
        await play.client.patch(NODES, "n", {"spec": {"unschedulable": True}})
        await play.until(NODES, "n", lambda one: taints(one) == ["node.kubernetes.io/unschedulable:NoSchedule"])
        await play.create(PODS, pod("p", node="n", script="true"))
        await asyncio.sleep(0)
        await play.client.delete(NODES, "n")
        await play.gone(PODS, "p")
