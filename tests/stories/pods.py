"""The backend where everything is as it is for users: containers on real nodes, and operators in pods, installed by our
manifests. Nodes can be added and lost, processes killed, where the cluster is the tests' own."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from edl.api.kubernetes.quantity import nano
from edl.kube.auth.kubeconfig import from_kubeconfig
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import HttpTransport
from edl.operator.resources import NODES, PODS
from edl.operator.settings import NAMESPACE
from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.cluster.kubectl import Kubectl, eventually
from tests.tier_kube.cluster.node import Node
from tests.tier_kube.disturbance import kill_container
from tests.tier_kube.installed import leader
from tests.tier_kube.manifests import SHELL_IMAGE

CORES = 4  # that a node has in stories
_MILLI = 10**6  # nanocores


class PodBackend:
    shell = SHELL_IMAGE
    pause = 0.1

    def __init__(self, client: Client, kubectl: Kubectl, image: str, cluster: Cluster | None) -> None:
        """`cluster` None: it is the user's, whose nodes are left alone."""
        self.client, self.python, self._kubectl, self._cluster = client, image, kubectl, cluster
        self.kubeconfig = kubectl.kubeconfig
        self._core = 0
        self._added: dict[str, Node] = {}

    @property
    def _own(self) -> Cluster:
        if self._cluster is None:
            pytest.skip("counts the cores of a cluster or breaks it, and this one is the user's")
        return self._cluster

    @property
    def core(self) -> int:
        return self._core if self._own else 0

    async def measure(self) -> None:
        """Whatever the machine has: so much that four fill what others leave of a node, those that go apart."""
        pods = [pod for pod in (await self.client.list(PODS)).items if "deletionTimestamp" not in pod["metadata"]]
        free = []
        for node in (await self.client.list(NODES)).items:
            here = [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"]]
            taken = sum(_requested(pod) for pod in here if pod["status"].get("phase") in ("Pending", "Running"))
            free.append(nano(node["status"]["allocatable"]["cpu"]) - taken)
        self._core = math.floor(min(free) / CORES / _MILLI)

    async def kill_operator(self) -> None:
        """The leader, without a word; the other one waits for its lease to end."""
        await asyncio.to_thread(self._kill_leader)

    def _kill_leader(self) -> None:
        old = leader(self._kubectl)
        self._kubectl.within(NAMESPACE)("delete", "pod", old, "--force", "--grace-period=0")
        eventually(lambda: leader(self._kubectl) not in ("", old), within=60, what="another operator leads")

    async def kill_pod(self, namespace: str, name: str) -> None:
        pod = await self.client.get(PODS, name, namespace=namespace)
        await asyncio.to_thread(kill_container, self._own, pod)

    async def add_node(self, name: str, cpu: str) -> None:
        """A machine like the others, whatever `cpu` says."""
        self._added[name] = await asyncio.to_thread(self._own.add_node)

    async def lose_node(self, name: str) -> None:
        await asyncio.to_thread(self._added[name].kill)

    async def forget_node(self, name: str) -> None:
        await self.client.delete(NODES, self._added[name].name)

    async def close(self) -> None:
        for name, node in self._added.items():
            await asyncio.to_thread(node.kill)
            with contextlib.suppress(ApiError):
                await self.forget_node(name)


def _requested(pod: dict[str, Any]) -> int:
    requests = [one.get("resources", {}).get("requests", {}) for one in pod["spec"]["containers"]]
    return sum(nano(each.get("cpu", "0")) for each in requests)


@contextlib.asynccontextmanager
async def in_pods(kubectl: Kubectl, image: str, cluster: Cluster | None) -> AsyncIterator[PodBackend]:
    """On a cluster where EDL is installed."""
    client = Client(
        HttpTransport(from_kubeconfig([kubectl.kubeconfig])), rate_limiter=RateLimiter(qps=1000, burst=1000)
    )
    backend = PodBackend(client, kubectl, image, cluster)
    try:
        await backend.measure()
        yield backend
    finally:
        await backend.close()
        await client.close()
