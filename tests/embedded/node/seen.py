"""Reads a pod on a process node: its status, and what it wrote."""

from typing import Any

from tests.embedded.cluster_fixture import PODS, Cluster

FOREVER = "while :; do sleep 0.1; done"


def main(found: Any) -> Any:
    return found["status"]["containerStatuses"][0]


def ready(found: Any) -> bool:
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def log_of(cluster: Cluster, found: Any, container: str = "main", run: int = 0) -> str:
    path = cluster.root / "pods" / "n1" / found["metadata"]["uid"] / "containers" / container / f"{run}.log"
    lines = path.read_text().splitlines() if path.exists() else []
    return "\n".join(line.split(" ", 3)[3] for line in lines)


async def said(cluster: Cluster, name: str, text: str) -> Any:
    return await cluster.until(PODS, name, lambda found: found is not None and text in log_of(cluster, found))
