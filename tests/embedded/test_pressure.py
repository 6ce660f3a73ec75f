"""A machine with nothing left: its node says so, takes no new pods, gives back those that never ran, and recovers."""

import errno
import os
from pathlib import Path

import pytest

from edl.api.kubernetes.cluster import NodeStatus
from edl.api.kubernetes.meta import Condition
from edl.embedded.cluster import embedded_cluster
from edl.embedded.controllers.taints import taints_of
from edl.embedded.controllers.types import Node
from edl.embedded.node.pressure import DISK, MEMORY, PROCESSES, Pressure, condition_for
from edl.kube.rest.resource import Resource
from tests.embedded.cluster_fixture import PODS, Cluster, eventually, pod
from tests.embedded.shortage import Shortage

pytestmark = pytest.mark.case("attack-11")

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


@pytest.mark.parametrize(
    ("message", "condition"),
    [
        (f"fork: {os.strerror(errno.EAGAIN)}", PROCESSES),
        (f"exec: {os.strerror(errno.ENOMEM)}", MEMORY),
        (str(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))), DISK),
        (str(OSError(errno.EMFILE, os.strerror(errno.EMFILE))), PROCESSES),
        ('exec: "nothing": executable file not found in $PATH', None),
    ],
)
def test_what_is_missing_says_which_pressure_it_is(message: str, condition: str | None) -> None:
    assert condition_for(message) == condition


def test_pressure_lasts_until_nothing_was_missing_for_a_while() -> None:
    begun = []
    pressure = Pressure(hold=20.0, changed=lambda: begun.append(True))
    pressure.note(DISK, 100.0)
    pressure.note(DISK, 110.0)
    assert pressure.active(129.0) == (DISK,)
    assert (pressure.active(130.0), len(begun)) == ((), 1)


def test_each_pressure_is_a_taint_that_goes_with_it() -> None:
    conditions = (Condition(type="Ready", status="True"), Condition(type=DISK, status="True"))
    tainted = taints_of(Node(status=NodeStatus(conditions=conditions)), "now")
    assert [(one["key"], one["effect"]) for one in tainted] == [("node.kubernetes.io/disk-pressure", "NoSchedule")]


async def test_a_node_that_can_start_nothing_is_left_alone_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortage = Shortage(monkeypatch, "node-1")
    async with embedded_cluster(home=tmp_path, nodes=2, heartbeat=0.2) as embedded:
        cluster, shortage.number = Cluster(embedded.client), errno.EAGAIN
        await cluster.create(PODS, pod("lost", node="node-1", script="sleep 1000"))
        await cluster.phase("lost", "Failed")
        found = await embedded.client.get(PODS, "lost", namespace="default")
        assert (found["status"]["reason"], "PIDPressure" in found["status"]["message"]) == ("Evicted", True)

        async def tainted() -> bool:
            node = await embedded.client.get(NODES, "node-1")
            return any(one["key"] == "node.kubernetes.io/pid-pressure" for one in node["spec"].get("taints") or ())

        await eventually(tainted)
        await cluster.create(PODS, pod("elsewhere", script="sleep 1000"))
        await cluster.phase("elsewhere", "Running")
        placed = await embedded.client.get(PODS, "elsewhere", namespace="default")
        assert placed["spec"]["nodeName"] == "node-0"
        shortage.number = None

        async def recovered() -> bool:
            return not await tainted()

        await eventually(recovered)
        await cluster.create(PODS, pod("again", node="node-1", script="sleep 1000"))
        await cluster.phase("again", "Running")
