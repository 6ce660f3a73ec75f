"""The stage of the comparison: a real control plane of its own, with kwok nodes, new for every run.

The limits that Kubernetes' own parts put on their calls by default are raised: at 50 bindings a second the scheduler
would hide any difference between the operators. The audit log counts calls: it leaves their bodies out, and is one file
however long it grows.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tier_kube.cluster.cluster import Cluster, provide
from tests.tier_kube.cluster.kwok import kwok, node

from edl.kube.auth.kubeconfig import from_kubeconfig
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import HttpTransport
from edl.operator.resources import NODES

AGENT = "bench"
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}
_FAST = ("--kube-api-qps=1000", "--kube-api-burst=2000")
FLAGS = {
    "kube-scheduler": _FAST,
    "kube-controller-manager": (*_FAST, "--node-monitor-grace-period=120s"),
}


@dataclass
class Stage:
    """A cluster and a client that does not count as any contender's."""

    cluster: Cluster
    client: Client
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"


@contextlib.asynccontextmanager
async def staged(directory: Path, *, nodes: int, resources: dict[str, str]) -> AsyncIterator[Stage]:
    """The cluster is removed when the block ends, however it ends."""
    provide(nodes=False)
    policy = directory / "audit.json"
    policy.write_text(json.dumps(AUDIT))
    log = directory / "audit.log"
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=100000")
    cluster = Cluster(f"bench-{os.getpid()}", nodes=0, more_flags={**FLAGS, "kube-apiserver": audit})
    cluster.start()
    try:
        client = client_of(cluster.kubeconfig)
        try:
            with kwok(cluster.kubeconfig, directory, lease_seconds=40):
                await add_nodes(client, nodes, resources)
                yield Stage(cluster, client, directory)
        finally:
            await client.close()
    finally:
        cluster.stop()


def client_of(kubeconfig: Path) -> Client:
    transport = HttpTransport(from_kubeconfig([kubeconfig]), user_agent=AGENT)
    return Client(transport, rate_limiter=RateLimiter(qps=1e6, burst=1_000_000), timeout=120.0)


async def add_nodes(client: Client, count: int, resources: dict[str, str]) -> None:
    for number in range(count):
        await client.create(NODES, node(f"kwok-{number}", resources))
    while not await _all_ready(client, count):
        await asyncio.sleep(0.5)


async def _all_ready(client: Client, count: int) -> bool:
    nodes = (await client.list(NODES)).items
    ready = sum(_is_ready(one) and not one["spec"].get("taints") for one in nodes)
    return ready >= count


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


def calls_since(log: Path, offset: int, agent: str) -> list[dict[str, Any]]:
    """What one program asked of the API server from this place in the audit log on."""
    with log.open("rb") as file:
        file.seek(offset)
        entries = (json.loads(line) for line in file if line.endswith(b"}\n"))
        return [entry for entry in entries if entry.get("userAgent", "").startswith(agent)]
