"""Several containers of a pod, their probes and hooks, as an API server's clients see them."""

from pathlib import Path
from typing import Any

from tests.embedded.cluster_fixture import PODS, Cluster
from tests.embedded.node.seen import FOREVER, main, ready, said


async def test_init_containers_run_in_order_and_a_sidecar_stays(cluster: Cluster, tmp_path: Path) -> None:
    def note(word: str) -> dict[str, Any]:
        return {"name": word, "image": "x", "command": ["sh", "-c", f"echo {word} >> {tmp_path}/order"]}

    sidecar = {
        "name": "side",
        "image": "x",
        "restartPolicy": "Always",
        "command": ["sh", "-c", f"echo side >> {tmp_path}/order; {FOREVER}"],
        "startupProbe": {"exec": {"command": ["grep", "side", f"{tmp_path}/order"]}, "periodSeconds": 1},
    }
    await cluster.pod("p", script=f"echo main >> {tmp_path}/order", initContainers=[note("a"), sidecar, note("b")])
    found = await cluster.phase("p", "Succeeded")
    assert (tmp_path / "order").read_text().split() == ["a", "side", "b", "main"]
    ends = [one["state"]["terminated"] for one in found["status"]["initContainerStatuses"]]
    assert [one["exitCode"] for one in ends] == [0, 143, 0]


async def test_a_failed_init_container_fails_a_pod_that_never_restarts(cluster: Cluster) -> None:
    init = {"name": "i", "image": "x", "command": ["sh", "-c", "exit 4"]}
    await cluster.pod("p", script="true", initContainers=[init])
    found = await cluster.phase("p", "Failed")
    assert found["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 4
    assert "waiting" in main(found)["state"]


async def test_readiness_follows_its_probe(cluster: Cluster, tmp_path: Path) -> None:
    probe = {"exec": {"command": ["test", "-e", f"{tmp_path}/ok"]}, "periodSeconds": 1, "failureThreshold": 1}
    await cluster.pod("p", script=FOREVER, container={"readinessProbe": probe})
    found = await cluster.phase("p", "Running")
    assert not ready(found)
    (tmp_path / "ok").touch()
    await cluster.until(PODS, "p", ready)
    (tmp_path / "ok").unlink()
    await cluster.until(PODS, "p", lambda p: not ready(p))


async def test_a_container_that_fails_its_liveness_probe_is_restarted(cluster: Cluster, tmp_path: Path) -> None:
    probe = {"exec": {"command": ["test", "-e", f"{tmp_path}/ok"]}, "periodSeconds": 1, "failureThreshold": 1}
    (tmp_path / "ok").touch()
    await cluster.pod("p", script=FOREVER, container={"livenessProbe": probe}, restartPolicy="Always")
    await cluster.until(PODS, "p", ready)
    (tmp_path / "ok").unlink()
    await cluster.until(PODS, "p", lambda p: main(p)["restartCount"] >= 1)


async def test_a_startup_probe_holds_the_others_back(cluster: Cluster, tmp_path: Path) -> None:
    startup = {"exec": {"command": ["test", "-e", f"{tmp_path}/ok"]}, "periodSeconds": 1, "failureThreshold": 100}
    liveness = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    containers = {"startupProbe": startup, "livenessProbe": liveness}
    await cluster.pod("p", script=FOREVER, container=containers, restartPolicy="Always")
    found = await cluster.phase("p", "Running")
    assert main(found)["started"] is False
    assert main(found)["restartCount"] == 0
    (tmp_path / "ok").touch()
    await cluster.until(PODS, "p", lambda p: main(p)["restartCount"] >= 1)


async def test_network_probes(cluster: Cluster) -> None:
    server = "import http.server, os; http.server.HTTPServer((os.environ['EDL_POD_IP'], 8080), " \
        "http.server.SimpleHTTPRequestHandler).serve_forever()"  # fmt: skip
    actions: dict[str, dict[str, Any]] = {"http": {"httpGet": {"port": "web"}}, "tcp": {"tcpSocket": {"port": 8080}}}
    for name, action in actions.items():
        container = {
            "command": ["python", "-c", server],
            "ports": [{"name": "web", "containerPort": 8080}],
            "readinessProbe": {**action, "periodSeconds": 1},
        }
        await cluster.pod(name, container=container)
    for name in ("http", "tcp"):  # two pods on one port: each has an address of its own
        await cluster.until(PODS, name, ready)


async def test_hooks(cluster: Cluster, tmp_path: Path) -> None:
    def touch(name: str) -> dict[str, Any]:
        return {"exec": {"command": ["sh", "-c", f"echo {name} >> {tmp_path}/order"]}}

    hooks = {"lifecycle": {"postStart": touch("post"), "preStop": touch("pre")}}
    script = f"trap 'echo term >> {tmp_path}/order; exit 0' TERM; echo up; {FOREVER}"
    await cluster.pod("p", script=script, container=hooks)
    await cluster.phase("p", "Running")
    await said(cluster, "p", "up")  # the trap is set
    await cluster.client.delete(PODS, "p", namespace="default")
    await cluster.gone(PODS, "p")
    assert (tmp_path / "order").read_text().split() == ["post", "pre", "term"]
