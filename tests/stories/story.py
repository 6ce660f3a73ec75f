"""The words that stories are told in: what users do with kubectl, and what they wait for."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from edl.jobs.registry import JOB_KINDS
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.operator.resources import (
    JOB_RESOURCES,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    TRAINING_JOBS,
    resource_of,
)
from tests.stories.backend import Backend
from tests.tier_kube.cluster.kubectl import existing_kubeconfig

PATIENCE = 120.0
OBEDIENT = "trap 'kill $!; exit 143' TERM; sleep 3600 & wait"
"""A script that works until it is asked to go."""
Data = dict[str, Any]
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class Story:
    """One namespace of one cluster."""

    def __init__(self, backend: Backend, namespace: str) -> None:
        self.backend, self.namespace = backend, namespace
        self.client: Client = backend.client
        self.patience = PATIENCE

    @classmethod
    async def begin(cls, backend: Backend) -> "Story":
        name = f"story-{os.urandom(3).hex()}"
        await backend.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        story = cls(backend, name)
        await story.until(lambda: story.get(ACCOUNTS, "default"), "pods may be made in the namespace")
        return story

    async def end(self) -> None:
        """Leaves nothing to the next story.

        Kubernetes looks at a deleted namespace five seconds later, too late for what runs in it, and asks for every
        kind that there is: where the cluster goes as a whole, its namespaces may stay.
        """
        for resource in (*(resource_of(kind) for kind in JOB_KINDS), JOB_RESOURCES, REPLICA_SETS, PODS):
            await self.client.delete_collection(resource, namespace=self.namespace)
        if existing_kubeconfig():
            await self.client.delete(NAMESPACES, self.namespace)

        async def empty() -> bool:
            nodes = {node["metadata"]["name"] for node in (await self.client.list(NODES)).items}
            pods = (await self.client.list(PODS, namespace=self.namespace)).items
            return not any(pod["spec"].get("nodeName") in nodes for pod in pods)

        await self.until(empty, "no pod of it is on any node")

    # What users do.

    async def submit(self, name: str = "j", *, script: str, **spec: Any) -> Data:
        """A TrainingJob whose trainers run this shell script."""
        trainer = {"entrypoint": script, "min-instance": 1, "resources": {"requests": {"cpu": "100m"}}}
        trainer |= spec.pop("trainer", {})
        notes = spec.pop("annotations", {})
        body = {"image": self.backend.shell, "fault_tolerant": True, "trainer": trainer} | spec
        manifest = {
            "apiVersion": "paddlepaddle.org/v1",
            "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": notes},
            "spec": {field: value for field, value in body.items() if value is not None},
        }
        return await self.client.create(TRAINING_JOBS, manifest, namespace=self.namespace)

    def cpu(self, cores: float) -> str:
        """So many of the four cores that a node has in a story."""
        return f"{round(cores * self.backend.core)}m"

    def trainer(self, least: int, most: int, **more: Any) -> Data:
        """Trainers of a core each."""
        return {"min-instance": least, "max-instance": most, "resources": {"requests": {"cpu": self.cpu(1)}}} | more

    async def edit(self, change: Data, name: str = "j") -> None:
        await self.client.patch(TRAINING_JOBS, name, change, namespace=self.namespace)

    async def delete(self, resource: Resource, name: str, **how: Any) -> None:
        await self.client.delete(resource, name, namespace=self.namespace, **how)

    async def kill(self, pod: str) -> None:
        """kill -9 of all that runs in it."""
        await self.backend.kill_pod(self.namespace, pod)

    async def create(self, resource: Resource, body: Data) -> Data:
        return await self.client.create(resource, body, namespace=self.namespace)

    # What they see.

    async def get(self, resource: Resource, name: str) -> Data | None:
        return await self.client.find(resource, name, namespace=self.namespace)

    async def job(self, name: str = "j") -> Data:
        return await self.client.get(TRAINING_JOBS, name, namespace=self.namespace)

    async def status(self, name: str = "j") -> Data:
        found: Data = (await self.job(name)).get("status") or {}
        return found

    async def pods(self, role: str = "trainer", name: str = "j", *, phase: str = "Running") -> list[str]:
        labels = {"edl.dev/job": name, "edl.dev/role": role}
        page = await self.client.list(PODS, namespace=self.namespace, labels=labels)
        return sorted(
            pod["metadata"]["name"]
            for pod in page.items
            if pod.get("status", {}).get("phase") == phase and "deletionTimestamp" not in pod["metadata"]
        )

    async def everything(self) -> dict[str, list[str]]:
        """Names of all that is there of jobs, by kind."""
        kinds = (TRAINING_JOBS, JOBS, REPLICA_SETS, PODS)
        pages = [await self.client.list(kind, namespace=self.namespace) for kind in kinds]
        return {
            kind.kind: sorted(item["metadata"]["name"] for item in page.items)
            for kind, page in zip(kinds, pages, strict=True)
        }

    # What they wait for.

    async def until(self, condition: Callable[[], Awaitable[Any]], what: str) -> Any:
        try:
            async with asyncio.timeout(self.patience):
                while not (found := await condition()):
                    await asyncio.sleep(self.backend.pause)
        except TimeoutError:
            raise AssertionError(f"never came true: {what}; {await self._account()}") from None
        return found

    async def _account(self) -> Any:
        jobs = (await self.client.list(TRAINING_JOBS, namespace=self.namespace)).items
        pods = (await self.client.list(PODS, namespace=self.namespace)).items
        return [job.get("status") for job in jobs], [(pod["metadata"]["name"], pod.get("status")) for pod in pods]

    async def until_phase(self, phase: str, name: str = "j") -> Data:
        async def look() -> Data | None:
            status = await self.status(name)
            return status if status.get("phase") == phase else None

        found: Data = await self.until(look, f"{name} is {phase}")
        return found

    async def until_running(self, count: int, role: str = "trainer", name: str = "j") -> list[str]:
        async def look() -> list[str] | None:
            pods = await self.pods(role, name)
            return pods if len(pods) == count else None

        if count == 0:
            await self.until(lambda: self._none(role, name), f"no {role} of {name} runs")
            return []
        found: list[str] = await self.until(look, f"{count} pods of {role} of {name} run")
        return found

    async def until_complete(self, condition: str = "Complete", name: str = "j") -> None:
        """As `kubectl wait --for=condition=complete job/j-trainer`."""

        async def look() -> bool:
            job = await self.get(JOBS, f"{name}-trainer")
            conditions = (job or {}).get("status", {}).get("conditions") or ()
            return any((one["type"], one["status"]) == (condition, "True") for one in conditions)

        await self.until(look, f"Job {name}-trainer is {condition}")

    async def _none(self, role: str, name: str) -> bool:
        return not await self.pods(role, name)
