"""kill -9 of the operator under fifty ElasticJobs whose agents are connected: nobody regroups.

Pods are processes that only wait. Their agents live in this process, each with the real connection of its own, opened
with what its pod was told.
"""

import asyncio
import functools
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edl.cli.connect.pod_environment import environment
from edl.jobs.registry import PYTORCH_JOB
from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.operator.job_service.configmap_store import CONFIGMAPS
from edl.operator.resources import PODS, resource_of
from edl.protocol.rendezvous import Hello
from edl.runtime.torch.agent_state import AgentState
from edl.runtime.torch.connection import Address, RendezvousConnection
from tests.stories.machine import Machine, machine, reach

JOBS, SIZE = 50, 2
PATIENCE = 120.0
SERVICES = (
    ("api", ["up", "--foreground", "--no-operator", "--cpu", "64", "--memory", "64Gi"]),
    ("operator", ["operator", "--lease", "4", "--service", "127.0.0.1:0", "--service-url", "https://127.0.0.1:{port}"]),
)
Data = dict[str, Any]
pytestmark = pytest.mark.timeout(300)


def job(name: str) -> Data:
    container = {"name": "w", "image": "any", "command": ["sleep", "1000"], "resources": {"requests": {"cpu": "10m"}}}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    worker = {"replicas": SIZE, "template": {"spec": pod}}
    spec = {"minReplicas": 1, "maxReplicas": SIZE, "replicaSpecs": {"Worker": worker}}
    kind = resource_of(PYTORCH_JOB)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


class Agents:
    """By the names of their pods."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.by_name: dict[str, RendezvousConnection] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def submit(self) -> None:
        for number in range(JOBS):
            await until(lambda n=number: self._create(job(f"j{n}")), "the kind is served")  # type: ignore[misc]  # mypy: a default is no argument

    async def _create(self, manifest: Data) -> Data | None:
        try:
            return await self.client.create(resource_of(PYTORCH_JOB), manifest, namespace="default")
        except KubeError:
            return None

    async def start(self) -> None:
        """One for every pod."""
        for pod in await until(self._pods, "all pods are there"):
            env = await environment(self.client, pod, "default", secrets="j")
            name, run = pod["metadata"]["name"], env["PET_RDZV_ID"]
            state = AgentState(Hello(agent=f"{name}/1", run=run, minimum=1, maximum=SIZE, follows=True))
            state.wait("127.0.0.1:1")
            obey = functools.partial(self._obey, name)
            self.by_name[name] = RendezvousConnection(self._address(env), state, changed=obey)
            self._tasks[name] = asyncio.create_task(self.by_name[name].run())

    async def _pods(self) -> list[Data] | None:
        found = (await self.client.list(PODS, namespace="default")).items
        return found if len(found) == JOBS * SIZE else None

    def _address(self, env: dict[str, str]) -> Address:
        url = f"{env['EDL_SERVICE_URL']}/v1/jobs/default/{env['EDL_JOB_NAME']}/rendezvous"
        return Address(url, env["EDL_JOB_TOKEN"], ssl.create_default_context(cadata=env["EDL_SERVICE_CA"]))

    def _obey(self, name: str) -> None:
        """As torchrun does when a round is over."""
        connection = self.by_name[name]
        if connection.state.stale:
            connection.state.stale = ""
            connection.state.wait("127.0.0.1:1")
            connection.report_changed()

    async def stop(self, *names: str) -> None:
        for name in names:
            self.by_name.pop(name)
            self._tasks[name].cancel()
        await asyncio.gather(*(self._tasks.pop(name) for name in names), return_exceptions=True)

    async def rounds(self) -> dict[str, int]:
        """What is durable."""
        found = (await self.client.list(CONFIGMAPS, namespace="default")).items
        kept = [one for one in found if one["metadata"]["name"].endswith("-ptej-state")]
        return {one["metadata"]["name"]: json.loads(one["data"]["state.json"])["round"]["number"] for one in kept}


async def until(condition: Callable[[], Any], what: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while not (found := await condition()):
            await asyncio.sleep(0.1)
    assert found, what
    return found


async def kill_the_leader(made: Machine, agents: Agents) -> None:
    """Returns when all have found its successor."""
    before = {name: connection.connections for name, connection in agents.by_name.items()}
    made.kill("operator")

    async def back() -> bool:
        return all(
            connection.connections > before[name] and connection.delivered
            for name, connection in agents.by_name.items()
        )

    await until(back, "everybody is connected to the next leader")


async def test_nobody_regroups_when_the_leader_of_fifty_jobs_is_killed(tmp_path: Path) -> None:
    async with machine(tmp_path, SERVICES, nodes=1) as made:
        client = await reach(made, 1)
        agents = Agents(client)
        try:
            await agents.submit()
            await agents.start()
            await until(lambda: _settled(agents), "fifty rounds of two")
            before = await agents.rounds()
            assert len(before) == JOBS
            await kill_the_leader(made, agents)
            assert await agents.rounds() == before
            numbers = {name: connection.state.number for name, connection in agents.by_name.items()}

            await agents.stop("j7-worker-1")
            await until(lambda: _regrouped(agents, "j7-worker-0", numbers), "who has lost a peer regroups")
            others = {name: connection.state.number for name, connection in agents.by_name.items() if "j7-" not in name}
            assert others.items() <= numbers.items(), "and nobody else does"
        finally:
            await agents.stop(*agents.by_name)
            await client.close()


async def _settled(agents: Agents) -> bool:
    states = [connection.state for connection in agents.by_name.values()]
    return all(one.round is not None and len(one.round.members) == SIZE and not one.stale for one in states)


async def _regrouped(agents: Agents, name: str, before: dict[str, int]) -> bool:
    return agents.by_name[name].state.number > before[name]
