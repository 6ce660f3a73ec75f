"""The whole cluster in one process, seen from outside: over TLS, with a token, by WebSocket, and from inside its
pods.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.embedded.node.pod.lifecycle import Backoff
from edl.kube.auth.kubeconfig import load_client_config
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport
from tests.embedded.cluster_fixture import PODS, Cluster, eventually, pod

SERVICES = Resource("", "v1", "services", "Service")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVER = """
import os, socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self): self.wfile.write(os.environ["HOSTNAME"].encode() + self.rfile.readline())
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer((os.environ["EDL_POD_IP"], 7000), Handler).serve_forever()
"""
ASK = """
import socket, sys
for name in sys.argv[2:]:
    connection = socket.create_connection((name, int(sys.argv[1])), timeout=10)
    connection.sendall(b"?\\n")
    print(name, connection.makefile().read().strip())
"""


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with embedded_cluster(
        home=tmp_path, nodes=2, cpu="8", memory="8Gi", gpu=2, backoff=Backoff(base=0.2, cap=0.4)
    ) as cluster:
        yield cluster


@pytest.fixture
async def cluster(embedded: EmbeddedCluster) -> AsyncIterator[Cluster]:
    """Everything goes over HTTPS with the kubeconfig, as for any other client."""
    account = load_client_config(embedded.kubeconfig)
    client = Client(HttpTransport(account), rate_limiter=RateLimiter(qps=1000, burst=1000))
    yield Cluster(client)
    await client.close()


def session(embedded: EmbeddedCluster, *, token: str = "") -> aiohttp.ClientSession:
    context = ssl.create_default_context(cadata=(embedded.kubeconfig.parent / "pki" / "ca.crt").read_text())
    headers = {"Authorization": f"Bearer {token or embedded.token}"}
    return aiohttp.ClientSession(embedded.url, headers=headers, connector=aiohttp.TCPConnector(ssl=context))


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def log_of(embedded: EmbeddedCluster, name: str, **query: str) -> str:
    async with (
        session(embedded) as http,
        http.get(f"/api/v1/namespaces/default/pods/{name}/log", params=query) as answer,
    ):
        return await answer.text()


async def execute(
    embedded: EmbeddedCluster, name: str, *command: str, given: bytes = b"", **query: str
) -> tuple[int, str]:
    """Run a command in a pod by WebSocket; its exit code and output."""
    pairs = [("command", word) for word in command] + [("stdout", "1"), *query.items()]
    path = f"/api/v1/namespaces/default/pods/{name}/exec"
    async with (
        session(embedded) as http,
        http.ws_connect(path, params=pairs, protocols=["v5.channel.k8s.io"]) as socket,
    ):
        if given:
            await socket.send_bytes(b"\x00" + given)
            await socket.send_bytes(b"\xff\x00")
        output, status = b"", {}
        async for message in socket:
            if message.data[0] == 3:
                status = json.loads(message.data[1:])
            else:
                output += message.data[1:]
    causes = status.get("details", {}).get("causes", [])
    return int(causes[0]["message"]) if causes else 0, output.decode()


async def test_tls_token_and_private_files(embedded: EmbeddedCluster, tmp_path: Path) -> None:
    async with session(embedded, token="wrong") as http, http.get("/api/v1/nodes") as answer:
        assert answer.status == 401
    async with session(embedded) as http, http.get("/api/v1/nodes") as answer:
        assert [one["metadata"]["name"] for one in (await answer.json())["items"]] == ["node-0", "node-1"]
    private = ("kubeconfig", "token", "owner", "pki/ca.key", "store.db", "store.db-wal", "store.db.lock")
    assert {name: mode_of(tmp_path / name) for name in private} == dict.fromkeys(private, 0o600)
    assert mode_of(tmp_path) == 0o700


async def test_logs_exec_and_terminals(embedded: EmbeddedCluster, cluster: Cluster) -> None:
    script = "echo one; echo two; for i in 1 2 3; do sleep 0.2; echo late $i; done"
    await cluster.create(PODS, pod("p", script=f"{script}; sleep 1000"))
    await cluster.phase("p", "Running")
    following = await log_of(embedded, "p", follow="true", limitBytes="25")
    assert following == "one\ntwo\nlate 1\nlate 2\nlat"
    assert await log_of(embedded, "p", tailLines="1") == "late 3\n"
    assert (await log_of(embedded, "p", tailLines="1", timestamps="true")).endswith("Z late 3\n")
    assert await execute(embedded, "p", "sh", "-c", "hostname; exit 4") == (4, "p\n")
    assert await execute(embedded, "p", "cat", given=b"through\n", stdin="1") == (0, "through\n")
    code, terminal = await execute(embedded, "p", "sh", "-c", "test -t 0 && echo terminal $TERM", tty="1", stdin="1")
    assert (code, terminal) == (0, "terminal xterm\r\n")


async def test_the_log_of_the_run_before(embedded: EmbeddedCluster, cluster: Cluster, tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/again && {{ echo second; sleep 1000; }}; touch {tmp_path}/again; echo first; exit 1"
    await cluster.create(PODS, pod("p", script=script, restartPolicy="Always"))

    async def restarted() -> bool:
        return await log_of(embedded, "p") == "second\n"

    await eventually(restarted)
    assert await log_of(embedded, "p", previous="true") == "first\n"


async def test_port_forward_reaches_a_pod(embedded: EmbeddedCluster, cluster: Cluster) -> None:
    """The API server relays; the framing itself is the streams' own test."""
    await cluster.create(PODS, pod("p", container={"command": ["python", "-c", SERVER]}))
    await cluster.phase("p", "Running")
    path = "/api/v1/namespaces/default/pods/p/portforward"
    async with session(embedded) as http, http.ws_connect(path, protocols=["SPDY/3.1+portforward.k8s.io"]) as socket:
        assert socket.protocol == "SPDY/3.1+portforward.k8s.io"
    worker = next(found for node in embedded.nodes if (found := node.worker("default", "p")) is not None)
    assert await asyncio.to_thread(worker.listening_address, 7000) == worker.address


def needs_namespaces(embedded: EmbeddedCluster) -> None:
    if embedded.host.runtime.mode == "none":
        pytest.skip(embedded.host.runtime.refused)


async def serve(cluster: Cluster, name: str, **spec: Any) -> None:
    labels = {"labels": {"app": "server"}}
    probe = {"readinessProbe": {"tcpSocket": {"port": 7000}, "periodSeconds": 1}}
    body = pod(name, metadata=labels, container={"command": ["python", "-c", SERVER], **probe}, **spec)
    await cluster.create(PODS, body)


async def ask(embedded: EmbeddedCluster, cluster: Cluster, name: str, port: int, *names: str) -> list[str]:
    container = {
        "command": ["python", "-c", ASK, str(port), *names],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    await cluster.create(PODS, pod(name, container=container))
    found = await cluster.until(PODS, name, lambda one: one["status"].get("phase") in ("Succeeded", "Failed"))
    assert found["status"]["phase"] == "Succeeded", found["status"]
    return (await log_of(embedded, name)).splitlines()


@pytest.mark.may_skip("names of services in pods need mount namespaces, which a machine may not allow")
async def test_services_have_names_and_addresses(embedded: EmbeddedCluster, cluster: Cluster) -> None:
    ports = [{"port": 80, "targetPort": 7000}]
    needs_namespaces(embedded)
    selector = {"app": "server"}
    await cluster.create(SERVICES, {"metadata": {"name": "front"}, "spec": {"selector": selector, "ports": ports}})
    headless = {"selector": selector, "clusterIP": "None", "ports": [{"port": 7000}]}
    await cluster.create(SERVICES, {"metadata": {"name": "peers"}, "spec": headless})
    await serve(cluster, "s-0", hostname="s-0", subdomain="peers")
    await serve(cluster, "s-1", hostname="s-1", subdomain="peers")

    async def known() -> bool:
        return "s-1.peers" in embedded.host.services.hosts("default") and "s-0.peers" in embedded.host.services.hosts(
            "default"
        )

    await eventually(known)
    front = await cluster.get(SERVICES, "front")
    direct = await ask(embedded, cluster, "a", 7000, "s-0.peers", "s-1.peers.default.svc.cluster.local")
    assert direct == ["s-0.peers s-0?", "s-1.peers.default.svc.cluster.local s-1?"]
    if front["spec"]["ports"][0]["port"] < 1024:
        await cluster.client.patch(
            SERVICES, "front", {"spec": {"ports": [{"port": 7070, "targetPort": 7000}]}}, namespace="default"
        )

    async def forwarded() -> bool:
        return any(port == 7070 for _, port in embedded.host.services.forwarded())

    await eventually(forwarded)
    answers = await ask(embedded, cluster, "b", 7070, "front", "front.default", front["spec"]["clusterIP"], "front")
    assert {line.split()[1] for line in answers} == {"s-0?", "s-1?"}


@pytest.mark.may_skip("the token's path in pods needs mount namespaces, which a machine may not allow")
async def test_a_service_account_reaches_the_api_from_a_pod(embedded: EmbeddedCluster, cluster: Cluster) -> None:
    script = """
import json, os, ssl, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount"
context = ssl.create_default_context(cafile=place + "/ca.crt")
where = os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
url = f"https://{where}/api/v1/namespaces/default/pods"
request = urllib.request.Request(url, headers={"Authorization": "Bearer " + open(place + "/token").read()})
print([pod["metadata"]["name"] for pod in json.load(urllib.request.urlopen(request, context=context))["items"]])
"""
    needs_namespaces(embedded)
    await cluster.create(
        PODS, pod("p", automountServiceAccountToken=True, container={"command": ["python", "-c", script]})
    )
    await cluster.phase("p", "Succeeded")
    assert await log_of(embedded, "p") == "['p']\n"


async def test_a_deployment_comes_up_and_survives_a_killed_process(cluster: Cluster) -> None:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pod("x", script="sleep 1000")["spec"]}
    template["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    await cluster.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    await cluster.until(DEPLOYMENTS, "d", lambda one: one["status"].get("availableReplicas") == 4)
    pods = (await cluster.client.list(PODS, namespace="default", labels={"app": "d"})).items
    assert {one["spec"]["nodeName"] for one in pods} == {"node-0", "node-1"}
    await cluster.client.delete(DEPLOYMENTS, "d", namespace="default")

    async def empty() -> bool:
        return not (await cluster.client.list(PODS, namespace="default")).items

    await eventually(empty)


async def test_fewer_nodes_than_before(tmp_path: Path) -> None:
    nodes = Resource("", "v1", "nodes", "Node", namespaced=False)
    async with embedded_cluster(home=tmp_path, nodes=2) as first:
        await first.client.create(PODS, pod("p", node="node-1", script="sleep 1000"), namespace="default")
        await Cluster(first.client).phase("p", "Running")
    async with embedded_cluster(home=tmp_path, nodes=1) as second:
        assert [one["metadata"]["name"] for one in (await second.client.list(nodes)).items] == ["node-0"]
        await Cluster(second.client).gone(PODS, "p")
