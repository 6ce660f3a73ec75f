"""How intents are carried out: what comes first, what happens at the same time, and how much of it."""

import asyncio
from typing import Any, cast

from edl.jobs.intents import Create, Delete, Intent
from edl.kube.client import Client
from edl.kube.resource import Resource
from edl.operator.executor import AT_ONCE, Executor, Written
from edl.operator.resources import TRAINING_JOBS


class Slow:
    """A client whose calls take a few turns of the loop each, and which notes them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.now, self.most = 0, 0

    async def create(self, resource: Resource, body: dict[str, Any], **_: object) -> Written:
        await self._call("create", resource)
        return Written()

    async def delete(self, resource: Resource, name: str, **_: object) -> dict[str, Any]:
        await self._call("delete", resource)
        return {}

    async def _call(self, verb: str, resource: Resource) -> None:
        self.calls.append((verb, resource.kind))
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(3):
            await asyncio.sleep(0)
        self.now -= 1


async def carried_out(*intents: Intent) -> Slow:
    client = Slow()
    executor = Executor(cast(Client, client), TRAINING_JOBS)
    await executor.carry_out(intents, namespace="ns", job_uid="uid-1")
    assert len(client.calls) == len(intents)
    return client


async def test_pods_and_services_are_made_in_turns_and_few_at_once() -> None:
    pods = [Create("Pod", f"p{number}", {}) for number in range(3 * AT_ONCE)]
    services = [Create("Service", f"s{number}", {}) for number in range(3 * AT_ONCE)]
    client = await carried_out(Create("Secret", "s", {}), *pods, *services)
    assert client.calls[:5] == [("create", kind) for kind in ("Secret", "Pod", "Service", "Pod", "Service")]
    assert client.most == AT_ONCE


async def test_removing_does_not_wait_for_making() -> None:
    pods = [Create("Pod", f"p{number}", {}) for number in range(2 * AT_ONCE)]
    client = await carried_out(*pods, Delete("Pod", "old", "uid-2"))
    assert ("delete", "Pod") in client.calls[: AT_ONCE + 1]
