"""The words that stories of PyTorch ElasticJobs are told in, on top of those of every story."""

from collections.abc import Awaitable, Callable
from typing import Any

from edl.jobs.registry import PYTORCH_JOB
from edl.operator.resources import PODS, SERVICES, resource_of
from tests.stories.story import Data, Story

ELASTIC_JOBS = resource_of(PYTORCH_JOB)


class Elastic:
    """ElasticJobs of one story. What it does not know, the story does."""

    def __init__(self, story: Story) -> None:
        self.story, self.client, self.namespace = story, story.client, story.namespace

    def manifest(
        self,
        script: str,
        least: int = 2,
        most: int | None = None,
        *,
        name: str = "j",
        policy: str | None = None,
        cpu: str = "1",
        notes: dict[str, str] | None = None,
        container: Data | None = None,
        **spec: Any,
    ) -> Data:
        """Workers that run this shell script. `most` omitted: a job of one size."""
        run: Data = {"name": "torchelasticworker", "image": self.story.backend.shell, "command": ["sh", "-c", script]}
        run |= {"resources": {"requests": {"cpu": cpu}}} | (container or {})
        pod = {"terminationGracePeriodSeconds": 5, "containers": [run]}
        worker: Data = {"replicas": least, "template": {"spec": pod}}
        if policy is not None:
            worker["restartPolicy"] = policy
        return {
            "apiVersion": ELASTIC_JOBS.api_version,
            "kind": ELASTIC_JOBS.kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "annotations": {"edl.dev/freezing-window": "0s"} | (notes or {}),
            },
            "spec": {"minReplicas": least, "maxReplicas": most or least, "replicaSpecs": {"Worker": worker}} | spec,
        }

    async def submit(self, script: str, least: int = 2, most: int | None = None, **more: Any) -> Data:
        return await self.create(self.manifest(script, least, most, **more))

    async def create(self, manifest: Data) -> Data:
        return await self.client.create(ELASTIC_JOBS, manifest, namespace=self.namespace)

    async def edit(self, change: Data, name: str = "j") -> None:
        await self.client.patch(ELASTIC_JOBS, name, change, namespace=self.namespace)

    async def scale(self, size: int, name: str = "j") -> None:
        """As `kubectl scale elasticjob j --replicas=N`."""
        change = {"spec": {"replicas": size}}
        await self.client.patch(ELASTIC_JOBS, name, change, namespace=self.namespace, subresource="scale")

    async def job(self, name: str = "j") -> Data:
        return await self.client.get(ELASTIC_JOBS, name, namespace=self.namespace)

    async def status(self, name: str = "j") -> Data:
        found: Data = (await self.job(name)).get("status") or {}
        return found

    async def workers(self, name: str = "j", *, phase: str = "Running") -> list[str]:
        return await self.story.pods("worker", name, phase=phase)

    async def services(self) -> list[str]:
        page = await self.client.list(SERVICES, namespace=self.namespace)
        return sorted(item["metadata"]["name"] for item in page.items)

    async def pod(self, name: str) -> Data:
        return await self.client.get(PODS, name, namespace=self.namespace)

    async def until(self, condition: Callable[[], Awaitable[Any]], what: str) -> Any:
        return await self.story.until(condition, what)

    async def until_running(self, count: int, name: str = "j") -> list[str]:
        return await self.story.until_running(count, "worker", name)

    async def until_phase(self, phase: str, name: str = "j") -> Data:
        async def look() -> Data | None:
            status = await self.status(name)
            return status if status.get("phase") == phase else None

        found: Data = await self.until(look, f"{name} is {phase}")
        return found

    async def until_condition(self, kind: str, status: str = "True", name: str = "j") -> Data:
        async def look() -> Data | None:
            conditions = (await self.status(name)).get("conditions") or ()
            return next((one for one in conditions if (one["type"], one["status"]) == (kind, status)), None)

        found: Data = await self.until(look, f"condition {kind} of {name} is {status}")
        return found
