"""Steps of users of EasyDL jobs, beside those of every story."""

from typing import Any

from edl.jobs.registry import EASYDL_JOB
from edl.operator.resources import JOB_RESOURCES, PODS, SERVICES, resource_of
from tests.stories.story import OBEDIENT, Data, Story

JOBS = resource_of(EASYDL_JOB)


class EasydlStory:
    """One job, whose roles run shell scripts."""

    def __init__(self, story: Story, name: str = "j") -> None:
        self.story, self.client, self.namespace, self.name = story, story.client, story.namespace, name

    def template(self, script: str, **resources: Any) -> Data:
        container: Data = {"name": "main", "image": self.story.backend.shell, "command": ["sh", "-c", script]}
        container["resources"] = resources
        return {"metadata": {"annotations": {"note": "kept"}}, "spec": {"containers": [container]}}

    async def submit(
        self, *, trainer: str = OBEDIENT, worker: str = OBEDIENT, ps: str = OBEDIENT, rigid: bool = False, **spec: Any
    ) -> Data:
        """`rigid`: parameter servers are of a class of service that would change if they were resized in place."""
        bound = {"requests": {"memory": "32Mi"}, "limits": {"memory": "64Mi"}} if rigid else {}
        roles = {
            "trainer": {"template": self.template(trainer, requests={"cpu": "100m"})},
            "parameterServer": {"template": self.template(ps, **bound)},
            "worker": {"template": self.template(worker)},
        }
        metadata = {"name": self.name, "namespace": self.namespace, "annotations": {"edl.dev/freezing-window": "0s"}}
        body = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": roles | spec}
        return await self.story.create(JOBS, body)

    async def plan(self, name: str = "r", job: str = "j", **spec: Any) -> Data:
        metadata = {"name": name, "namespace": self.namespace}
        body = {
            "apiVersion": JOB_RESOURCES.api_version,
            "kind": JOB_RESOURCES.kind,
            "metadata": metadata,
            "spec": {"selector": {"name": job}} | spec,
        }
        return await self.story.create(JOB_RESOURCES, body)

    async def edit_plan(self, name: str = "r", **spec: Any) -> None:
        await self.client.patch(JOB_RESOURCES, name, {"spec": spec}, namespace=self.namespace)

    async def status(self) -> Data:
        found: Data = (await self.client.get(JOBS, self.name, namespace=self.namespace)).get("status") or {}
        return found

    async def reported(self, name: str = "r") -> Data:
        found: Data = (await self.client.get(JOB_RESOURCES, name, namespace=self.namespace)).get("status") or {}
        return found

    async def pods(self) -> dict[str, list[str]]:
        """Names of all pods that are not asked to go and have not ended, by role."""
        page = await self.client.list(PODS, namespace=self.namespace)
        found: dict[str, list[str]] = {}
        for pod in page.items:
            ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if not ended and "deletionTimestamp" not in pod["metadata"]:
                role = pod["metadata"]["labels"].get("edl.dev/role", "")
                found.setdefault(role, []).append(pod["metadata"]["name"])
        return {role: sorted(names) for role, names in found.items()}

    async def until_running(self, **counts: int) -> dict[str, list[str]]:
        """So many pods of each role run, and none of any other."""
        wanted = {role: count for role, count in ({"trainer": 1} | counts).items() if count}

        async def look() -> dict[str, list[str]] | None:
            found = {role: await self.story.pods(role, self.name) for role in ("trainer", "ps", "worker", "evaluator")}
            running = {role: len(names) for role, names in found.items() if names}
            every = {role: len(names) for role, names in (await self.pods()).items()}
            return found if running == wanted == every else None

        found: dict[str, list[str]] = await self.story.until(look, f"{wanted} run")
        return found

    async def until_updates(self, name: str = "r", **states: str) -> Data:
        """Updates have come so far; slots without the job's name, _ for -."""
        wanted = {f"{self.name}-{slot.replace('_', '-')}": state for slot, state in states.items()}

        async def look() -> Data | None:
            reported = await self.reported(name)
            found = {one["name"]: one["state"] for one in reported.get("updates", ())}
            return reported if found == wanted else None

        found: Data = await self.story.until(look, f"updates are {wanted}")
        return found

    async def until_told(self, words: str, name: str = "r") -> Data:
        async def look() -> Data | None:
            reported = await self.reported(name)
            return reported if words in reported.get("reason", "") else None

        found: Data = await self.story.until(look, f"JobResource {name} says {words!r}")
        return found

    async def until_granted(self, name: str = "r", **counts: int) -> Data:
        async def look() -> Data | None:
            reported = await self.reported(name)
            return reported if reported.get("granted") == counts else None

        found: Data = await self.story.until(look, f"JobResource {name} says that {counts} are granted")
        return found

    async def until_phase(self, phase: str) -> Data:
        async def look() -> Data | None:
            status = await self.status()
            return status if status.get("phase") == phase else None

        found: Data = await self.story.until(look, f"the job is {phase}")
        return found

    async def resources(self, pod: str) -> Data:
        found = await self.client.get(PODS, pod, namespace=self.namespace)
        limits: Data = found["spec"]["containers"][0].get("resources", {}).get("limits", {})
        return limits

    async def leads_to(self, service: str) -> list[str]:
        """The pods that a Service selects."""
        selector = (await self.client.get(SERVICES, service, namespace=self.namespace))["spec"]["selector"]
        page = await self.client.list(PODS, namespace=self.namespace, labels=selector)
        return sorted(pod["metadata"]["name"] for pod in page.items)
