"""Controllers on a stage: an API server, the controllers under test, and a stand-in for nodes that plays the pods.

The stand-in makes every pod run and be ready, lets deleted ones go, and ends those it is told to end.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from tests.embedded import real_server
from tests.embedded.cluster_fixture import PODS, Cluster, api_server, eventually

from edl.embedded.controllers.run import controllers
from edl.embedded.tasks import background
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
JOBS = Resource("batch", "v1", "jobs", "Job")
SERVICES = Resource("", "v1", "services", "Service")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)


class Stage(Cluster):
    """`unready` are names of pods (or beginnings of names) that run without becoming ready."""

    unready: set[str]

    async def pods(self, **labels: str) -> list[Any]:
        page = await self.client.list(PODS, namespace="default", labels=labels or None)
        return sorted(page.items, key=lambda one: one["metadata"]["name"])

    async def names(self, **labels: str) -> list[str]:
        return [one["metadata"]["name"] for one in await self.pods(**labels)]

    async def end(self, name: str, code: int = 0) -> None:
        """A pod of one container ends with this code."""
        state = {"terminated": {"exitCode": code, "finishedAt": "2020-01-01T00:00:00Z"}}
        statuses = [{"name": "c", "ready": False, "restartCount": 0, "state": state, "image": "", "imageID": ""}]
        ready = {"type": "Ready", "status": "False"}
        body = {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses, "conditions": [ready]}
        await self.client.patch(
            PODS, name, {"status": body}, kind="strategic", namespace="default", subresource="status"
        )

    async def settled(self, count: int, **labels: str) -> None:
        """So many pods, all ready, none leaving."""

        async def look() -> bool:
            pods = await self.pods(**labels)
            return len(pods) == count and all(_is_ready(one) and not _leaves(one) for one in pods)

        await eventually(look)

    async def play(self) -> None:
        while True:
            for one in (await self.client.list(PODS)).items:
                try:
                    await self._play(one)
                except ApiError as error:
                    if not (error.is_not_found or error.is_conflict):
                        raise
            await asyncio.sleep(real_server.PAUSE)

    async def _play(self, one: Any) -> None:
        meta = one["metadata"]
        where = {"namespace": meta["namespace"]}
        if _leaves(one):
            await self.client.delete(PODS, meta["name"], uid=meta["uid"], grace=0, **where)
            return
        held = any(meta["name"].startswith(name) for name in self.unready)
        if one.get("status", {}).get("phase") in ("Succeeded", "Failed") or (
            _is_ready(one) == (not held) and _runs(one)
        ):
            return
        ready = {"type": "Ready", "status": "False" if held else "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
        status = {"phase": "Running", "podIP": "10.50.0.1", "podIPs": [{"ip": "10.50.0.1"}], "conditions": [ready]}
        await self.client.patch(
            PODS,
            meta["name"],
            {"metadata": {"uid": meta["uid"]}, "status": status},
            kind="strategic",
            subresource="status",
            **where,
        )


def _runs(one: Any) -> bool:
    return bool(one.get("status", {}).get("phase") == "Running")


def _leaves(one: Any) -> bool:
    return "deletionTimestamp" in one["metadata"]


def _is_ready(one: Any) -> bool:
    conditions = one.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


@asynccontextmanager
async def stage(*only: str, plays: bool = True, **options: Any) -> AsyncIterator[Stage]:
    chosen: Collection[str] = only
    async with api_server() as client, controllers(client, only=chosen, **options):
        made = Stage(client)
        made.unready = set()
        async with background(*([made.play()] if plays else [])):
            yield made


def template(app: str = "x", version: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": f"image:{version}", "command": ["true"]}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **spec}}


def workload(name: str, replicas: int = 1, *, version: str = "1", **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "x"}}
    body = {"replicas": replicas, "selector": selector, "template": template(version=version), **spec}
    return {"metadata": {"name": name}, "spec": body}
