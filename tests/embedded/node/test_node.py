"""Pods on a process node, as an API server's clients see them."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.cluster_fixture import PODS, Cluster, api_server, eventually, joined_node, pod
from tests.embedded.node.seen import FOREVER, log_of, main, ready, said

from edl.embedded.node.supervisor import processes
from edl.kube.rest.resource import Resource

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")


async def test_the_node_registers_and_is_ready(cluster: Cluster) -> None:
    node = await cluster.get(NODES, "n1")
    conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    assert conditions == {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["status"]["capacity"] == {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "4", "pods": "1k"}
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    leases = Resource("coordination.k8s.io", "v1", "leases", "Lease")
    lease = await cluster.get(leases, "n1", "kube-node-lease")
    assert lease["spec"]["holderIdentity"] == "n1"


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (7, "Failed", "Error")])
async def test_a_pod_runs_to_its_end(cluster: Cluster, code: int, phase: str, reason: str) -> None:
    await cluster.pod("p", script=f"echo hello; exit {code}")
    found = await cluster.phase("p", phase)
    state = main(found)["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (code, reason)
    assert log_of(cluster, found) == "hello"
    assert found["status"]["podIP"].startswith("127.")


async def test_restarts_are_counted_and_the_last_end_is_told(cluster: Cluster) -> None:
    await cluster.pod("p", script="echo run; exit 3", restartPolicy="Always")
    found = await cluster.until(
        PODS, "p", lambda p: p["status"].get("containerStatuses") and main(p)["restartCount"] >= 2
    )
    assert found["status"]["phase"] == "Running"
    state = main(found)
    assert (state["lastState"].get("terminated") or state["state"]["terminated"])["exitCode"] == 3
    waiting = await cluster.until(PODS, "p", lambda p: "waiting" in main(p)["state"])
    assert main(waiting)["state"]["waiting"]["reason"] == "CrashLoopBackOff"


async def test_on_failure_restarts_until_success(cluster: Cluster, tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/again || {{ touch {tmp_path}/again; exit 1; }}"
    await cluster.pod("p", script=script, restartPolicy="OnFailure")
    found = await cluster.phase("p", "Succeeded")
    assert main(found)["restartCount"] == 1
    assert main(found)["lastState"]["terminated"]["exitCode"] == 1


async def test_a_deleted_pod_is_stopped_and_then_goes(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.pod("p", script=f"trap 'touch {tmp_path}/saved; exit 0' TERM; echo up; {FOREVER}")
    found = await said(cluster, "p", "up")
    await cluster.client.delete(PODS, "p", namespace="default")
    await cluster.gone(PODS, "p")
    assert not await _gone(tmp_path / "saved")
    await eventually(lambda: _gone(tmp_path / "pods" / "n1" / found["metadata"]["uid"]))


async def _gone(path: Path) -> bool:
    return path.name not in os.listdir(path.parent)


async def test_a_second_shorter_deletion_hastens_the_end(cluster: Cluster) -> None:
    await cluster.pod("p", script=f"trap '' TERM; echo up; {FOREVER}", terminationGracePeriodSeconds=600)
    await said(cluster, "p", "up")
    await cluster.client.delete(PODS, "p", namespace="default")
    await cluster.until(PODS, "p", lambda p: p["metadata"].get("deletionGracePeriodSeconds") == 600)
    await cluster.client.delete(PODS, "p", namespace="default", grace=1)
    await cluster.gone(PODS, "p")


async def test_a_pod_deleted_by_force_leaves_no_process(cluster: Cluster) -> None:
    await cluster.pod("p", script=f"trap '' TERM; echo $$$$; {FOREVER}")
    found = await said(cluster, "p", "")
    await eventually(lambda: _has(cluster, found))
    pid = int(log_of(cluster, found))
    await cluster.client.delete(PODS, "p", namespace="default", grace=0)
    await cluster.gone(PODS, "p")
    await eventually(lambda: _dead(pid))


async def _has(cluster: Cluster, found: Any) -> bool:
    return bool(log_of(cluster, found))


async def _dead(pid: int) -> bool:
    return pid not in processes.table()


async def test_a_namesake_is_another_pod(cluster: Cluster) -> None:
    await cluster.pod("p", script=f"trap '' TERM; {FOREVER}", terminationGracePeriodSeconds=1)
    first = await cluster.phase("p", "Running")
    await cluster.client.delete(PODS, "p", namespace="default", grace=0)
    await cluster.gone(PODS, "p")
    await cluster.pod("p", script="exit 0")
    second = await cluster.phase("p", "Succeeded")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_what_a_pod_refers_to_may_come_later(cluster: Cluster) -> None:
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    await cluster.pod("p", script="echo $A $B", container={"env": env})
    waiting = await cluster.until(PODS, "p", lambda p: p["status"].get("containerStatuses"))
    assert main(waiting)["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "c" not found',
    }
    await cluster.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"k": "one"}})
    await cluster.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"k": "two"}})
    found = await cluster.phase("p", "Succeeded")
    assert log_of(cluster, found) == "one two"


async def test_an_image_without_a_command_says_so(cluster: Cluster) -> None:
    await cluster.pod("p")
    waiting = await cluster.until(PODS, "p", lambda p: p["status"].get("containerStatuses"))
    assert "no command specified" in main(waiting)["state"]["waiting"]["message"]
    (cluster.root / "images.yaml").write_text("any: {command: [sh, -c, 'exit 0']}\n")
    await cluster.phase("p", "Succeeded")


async def test_a_command_that_does_not_exist(cluster: Cluster) -> None:
    await cluster.pod("p", container={"command": ["no-such-program"]})
    state = main(await cluster.phase("p", "Failed"))["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (128, "StartError")
    assert "executable file not found in $PATH" in state["message"]


@pytest.mark.parametrize(
    ("policy", "script", "message"),
    [
        ("FallbackToLogsOnError", "echo why it failed; exit 1", "why it failed\n"),
        ("File", "echo noise; echo the reason > $EDL_TERMINATION_LOG; exit 1", "the reason\n"),
    ],
)
async def test_the_last_words_are_in_the_status(cluster: Cluster, policy: str, script: str, message: str) -> None:
    await cluster.pod("p", script=script, container={"terminationMessagePolicy": policy})
    assert main(await cluster.phase("p", "Failed"))["state"]["terminated"]["message"] == message


async def test_a_pod_may_not_run_longer_than_it_says(cluster: Cluster) -> None:
    await cluster.pod("p", script=FOREVER, activeDeadlineSeconds=1)
    found = await cluster.phase("p", "Failed")
    assert found["status"]["reason"] == "DeadlineExceeded"


async def test_above_its_memory_limit_a_container_is_killed(cluster: Cluster) -> None:
    container = {
        "command": ["python", "-c", "x = bytearray(200 << 20); import time; time.sleep(100)"],
        "resources": {"limits": {"memory": "100Mi"}},
    }
    await cluster.pod("p", container=container)
    state = main(await cluster.phase("p", "Failed"))["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")


async def test_a_memory_limit_can_be_raised_in_place(cluster: Cluster, tmp_path: Path) -> None:
    wait = f"import os, time\nwhile not os.path.exists('{tmp_path}/go'): time.sleep(0.05)\n"
    script = wait + "x = bytearray(200 << 20); time.sleep(3)"
    resources = {"limits": {"memory": "100Mi"}, "requests": {"memory": "100Mi"}}
    await cluster.pod("p", container={"command": ["python", "-c", script], "resources": resources})
    await cluster.phase("p", "Running")
    bigger = {"limits": {"memory": "400Mi"}, "requests": {"memory": "400Mi"}}
    patch = {"spec": {"containers": [{"name": "main", "resources": bigger}]}}
    await cluster.client.patch(PODS, "p", patch, kind="strategic", namespace="default", subresource="resize")
    await cluster.until(PODS, "p", lambda p: main(p).get("resources") == bigger)
    (tmp_path / "go").touch()
    await cluster.phase("p", "Succeeded")


async def test_gpus_are_tokens(cluster: Cluster) -> None:
    def gpus(count: int) -> dict[str, Any]:
        return {"resources": {"limits": {"nvidia.com/gpu": str(count)}}}

    await cluster.pod("a", script=f"echo [$CUDA_VISIBLE_DEVICES]; {FOREVER}", container=gpus(3))
    await said(cluster, "a", "[0,1,2]")
    await cluster.pod("b", script="echo [$CUDA_VISIBLE_DEVICES]", container=gpus(1))
    assert log_of(cluster, await cluster.phase("b", "Succeeded")) == "[3]"
    await cluster.pod("c", script="echo [$CUDA_VISIBLE_DEVICES]")
    assert log_of(cluster, await cluster.phase("c", "Succeeded")) == "[]"
    await cluster.pod("d", script="true", container=gpus(2))
    refused = await cluster.phase("d", "Failed")
    assert refused["status"]["reason"] == "OutOfnvidia.com/gpu"


async def test_a_lost_supervisor_is_a_killed_container(cluster: Cluster) -> None:
    await cluster.pod("p", script=FOREVER, restartPolicy="Always")
    await cluster.phase("p", "Running")
    assert cluster.host is not None
    os.kill(cluster.host.runtime.pid, signal.SIGKILL)
    found = await cluster.until(PODS, "p", lambda p: main(p)["restartCount"] == 1 and "running" in main(p)["state"])
    assert main(found)["lastState"]["terminated"]["exitCode"] == 137


async def test_events_tell_what_happened(cluster: Cluster) -> None:
    await cluster.pod("p", script="exit 1")
    await cluster.phase("p", "Failed")

    async def reported() -> bool:
        page = await cluster.client.list(EVENTS, namespace="default")
        return any(one.get("reason") == "Started" and one["involvedObject"]["name"] == "p" for one in page.items)

    await eventually(reported)


async def test_a_restarted_node_loses_its_pods_through_no_fault_of_theirs(tmp_path: Path) -> None:
    async with api_server() as client:
        async with joined_node(client, tmp_path, owner="same") as first:
            await first.pod("never", script=FOREVER)
            await first.pod("always", script=FOREVER, restartPolicy="Always")
            await first.pod("done", script="echo kept")
            for name, phase in (("never", "Running"), ("always", "Running"), ("done", "Succeeded")):
                await first.phase(name, phase)
        async with joined_node(client, tmp_path, owner="same") as second:
            lost = await second.phase("never", "Failed")
            conditions = {one["type"]: one for one in lost["status"]["conditions"]}
            assert conditions["DisruptionTarget"]["status"] == "True"
            assert lost["status"]["reason"] == "Terminated"
            again = await second.until(PODS, "always", lambda p: main(p)["restartCount"] == 1 and ready(p))
            assert main(again)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
            kept = await second.get(PODS, "done")
            assert kept["status"]["phase"] == "Succeeded"
            assert log_of(second, kept) == "kept"
            await client.delete(PODS, "done", namespace="default")
            await second.gone(PODS, "done")


async def test_pods_that_are_deleted_while_they_start_leave_nothing(cluster: Cluster) -> None:
    assert cluster.host is not None
    names = [f"p{i}" for i in range(20)]
    await asyncio.gather(*(cluster.pod(name, script=FOREVER) for name in names))
    await asyncio.gather(*(cluster.client.delete(PODS, name, namespace="default", grace=1) for name in names))
    for name in names:
        await cluster.gone(PODS, name)
    supervisor = cluster.host.runtime.pid

    async def childless() -> bool:
        return processes.descendants(processes.table(), [supervisor]) == {supervisor}

    await eventually(childless)


async def test_a_crowd_of_pods(cluster: Cluster) -> None:
    await asyncio.gather(*(cluster.create(PODS, pod(f"p{i}", node="n1", script=f"exit {i % 2}")) for i in range(60)))
    for number in range(60):
        await cluster.phase(f"p{number}", "Failed" if number % 2 else "Succeeded")
