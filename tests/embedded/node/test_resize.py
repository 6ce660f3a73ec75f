"""A resize in place that does not fit its node. A real API server refuses one beyond the node's allocatable itself, so
these run against the embedded one, which leaves it to the node."""

from pathlib import Path
from typing import Any

import pytest
from tests.embedded.cluster_fixture import PODS, Cluster, api_server, joined_node
from tests.embedded.node.seen import FOREVER, main


def _cpu(amount: str) -> dict[str, Any]:
    return {"limits": {"cpu": amount, "memory": "64Mi"}, "requests": {"cpu": amount, "memory": "64Mi"}}


async def _resize(cluster: Cluster, name: str, amount: str) -> None:
    patch = {"spec": {"containers": [{"name": "main", "resources": _cpu(amount)}]}}
    await cluster.client.patch(PODS, name, patch, kind="strategic", namespace="default", subresource="resize")


def _pending(found: Any) -> tuple[str, str] | None:
    by_type = {one["type"]: one for one in found["status"]["conditions"]}
    pending = by_type.get("PodResizePending")
    return None if pending is None else (pending["reason"], pending["message"])


@pytest.mark.case("acceptance-2")
async def test_a_resize_beyond_the_node_is_refused(cluster: Cluster) -> None:
    await cluster.pod("p", script=FOREVER, container={"resources": _cpu("1")})
    await cluster.phase("p", "Running")
    await _resize(cluster, "p", "1000")
    found = await cluster.until(PODS, "p", _pending)
    assert _pending(found) == ("Infeasible", "Node didn't have enough capacity: cpu, requested: 1k, capacity: 8")
    assert main(found)["resources"] == _cpu("1")
    assert main(found)["allocatedResources"] == _cpu("1")["requests"]
    await cluster.pod("other", script=FOREVER, container={"resources": _cpu("7")})
    await cluster.phase("other", "Running")
    await _resize(cluster, "p", "1")
    await cluster.until(PODS, "p", lambda p: _pending(p) is None)


async def test_a_resize_waits_until_others_have_gone(cluster: Cluster) -> None:
    await cluster.pod("other", script=FOREVER, container={"resources": _cpu("6")})
    await cluster.pod("p", script=FOREVER, container={"resources": _cpu("1")})
    await cluster.phase("other", "Running")
    await cluster.phase("p", "Running")
    await _resize(cluster, "p", "4")
    found = await cluster.until(PODS, "p", _pending)
    refusal = "Node didn't have enough resource: cpu, requested: 4, used: 6, capacity: 8"
    assert _pending(found) == ("Deferred", refusal)
    await cluster.client.delete(PODS, "other", namespace="default", grace=0)
    found = await cluster.until(PODS, "p", lambda p: main(p)["resources"] == _cpu("4"))
    await cluster.until(PODS, "p", lambda p: _pending(p) is None)


async def test_a_refused_resize_is_still_refused_after_a_restart_of_the_node(tmp_path: Path) -> None:
    async with api_server() as client:
        async with joined_node(client, tmp_path) as cluster:
            resources = {"resources": _cpu("1")}
            await cluster.pod("p", script=FOREVER, restartPolicy="Always", container=resources)
            await cluster.phase("p", "Running")
            await _resize(cluster, "p", "1000")
            await cluster.until(PODS, "p", _pending)
        async with joined_node(client, tmp_path) as cluster:
            found = await cluster.until(
                PODS, "p", lambda p: main(p)["restartCount"] == 1 and "running" in main(p)["state"]
            )
            assert main(found)["resources"] == _cpu("1")
            assert (_pending(found) or ("",))[0] == "Infeasible"
