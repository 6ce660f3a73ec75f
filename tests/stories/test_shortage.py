"""A machine that runs out of something: its node is under pressure, and the job goes on smaller until that is over."""

import errno
from pathlib import Path
from typing import Any

import pytest

from edl.embedded.node.pressure import MEMORY, PROCESSES
from edl.operator.resources import NODES, PODS
from tests.embedded.shortage import Shortage
from tests.stories.backend import embedded
from tests.stories.elastic import Elastic
from tests.stories.story import OBEDIENT, Story

SHORT_NODE = "node-1"
CPU = "1290m"  # three of them fill a node of four cores, and six what growth may use of two nodes


class Shrinking:
    def __init__(self, elastic: Elastic) -> None:
        self._elastic = elastic

    async def until_size(self, size: int) -> None:
        async def reached() -> bool:
            scale = (await self._elastic.status()).get("scale") or {}
            return scale.get("target") == size and len(await self._elastic.workers()) == size

        await self._elastic.until(reached, f"it goes on with {size} workers")

    async def until_pressure(self, kind: str) -> None:
        async def told() -> bool:
            node = await self._elastic.client.get(NODES, SHORT_NODE)
            return any((one["type"], one["status"]) == (kind, "True") for one in node["status"]["conditions"])

        await self._elastic.until(told, f"the node says {kind}")

    async def lose_one(self) -> None:
        """A worker of the short node: its successor has room nowhere else."""
        pods = (await self._elastic.client.list(PODS, namespace=self._elastic.namespace)).items
        there: list[dict[str, Any]] = [pod for pod in pods if pod["spec"].get("nodeName") == SHORT_NODE]
        live = next(pod for pod in there if pod["status"].get("phase") == "Running")
        await self._elastic.story.delete(PODS, live["metadata"]["name"], grace=0)


@pytest.mark.case("attack-11")
async def test_a_job_goes_on_smaller_while_a_machine_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortage = Shortage(monkeypatch, SHORT_NODE)
    async with embedded(tmp_path, heartbeat=0.2) as backend:
        elastic = Elastic(await Story.begin(backend))
        tale = Shrinking(elastic)
        await elastic.submit(OBEDIENT, 1, 6, cpu=CPU)
        await tale.until_size(6)
        for number, pressure in ((errno.EAGAIN, PROCESSES), (errno.ENOMEM, MEMORY), (errno.EMFILE, PROCESSES)):
            shortage.number = number
            await tale.lose_one()
            await tale.until_pressure(pressure)
            await tale.until_size(5)
            shortage.number = None
            await tale.until_size(6)
        status = await elastic.until_phase("Running")
        assert not status["replicaStatuses"]["Worker"].get("failed"), "nothing of that was a failure of its workers"
