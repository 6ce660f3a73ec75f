"""Carrying out actions: their order, their concurrency, and its limit."""

import asyncio
from collections import Counter
from typing import Any, cast

from edl.jobs.core.actions import Action, Create, Delete
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.operator.reconcile.action_runner import AT_ONCE, ActionRunner, Written
from edl.operator.resources import TRAINING_JOBS


class Slow:
    """A client whose calls take a few turns of the loop each, and which notes them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.now: Counter[tuple[str, str]] = Counter()
        self.most: Counter[tuple[str, str]] = Counter()

    async def create(self, resource: Resource, body: dict[str, Any], **_: object) -> Written:
        await self._call("create", resource)
        return Written()

    async def delete(self, resource: Resource, name: str, **_: object) -> dict[str, Any]:
        await self._call("delete", resource)
        return {}

    async def _call(self, verb: str, resource: Resource) -> None:
        what = (verb, resource.kind)
        self.calls.append(what)
        self.now[what] += 1
        self.most |= self.now
        for _ in range(3):
            await asyncio.sleep(0)
        self.now[what] -= 1


async def carried_out(*actions: Action) -> Slow:
    client = Slow()
    executor = ActionRunner(cast(Client, client), TRAINING_JOBS)
    await executor.run(actions, namespace="ns")
    assert len(client.calls) == len(actions)
    return client


async def test_few_pods_are_made_at_once_and_removals_do_not_wait_for_them() -> None:
    pods = [Create("Pod", f"p{number}", {}) for number in range(3 * AT_ONCE)]
    client = await carried_out(Create("Secret", "s", {}), *pods, Delete("Pod", "old", "uid-2"))
    assert client.calls[0] == ("create", "Secret")
    assert ("delete", "Pod") in client.calls[: AT_ONCE + 2]
    assert client.most == {("create", "Secret"): 1, ("create", "Pod"): AT_ONCE, ("delete", "Pod"): 1}


async def test_services_follow_their_pods() -> None:
    """One that comes before its pod is looked at twice by those who keep its endpoints, and each time at all pods."""
    pods = [Create("Pod", f"p{number}", {}) for number in range(3)]
    services = [Create("Service", f"s{number}", {}) for number in range(3 * AT_ONCE)]
    client = await carried_out(*pods, *services)
    assert client.calls[:3] == [("create", "Pod")] * 3
    assert client.most["create", "Service"] == AT_ONCE
