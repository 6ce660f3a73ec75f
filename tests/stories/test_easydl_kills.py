"""kill -9 of trainer, Brain, operator, parameter server and worker, in random order at random moments of an epoch.

The workers write down outside of the product what they trained, and count every record into a parameter of its own: in
the end each has been trained once per epoch, and what was learned before a kill is still known after it.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from edl.kube.rest.client import Client
from edl.operator.resources import PODS
from tests.ports import free_port
from tests.stories.easydl import JOBS
from tests.stories.easydl_planned import Ledger, planned_job
from tests.stories.machine import machine, reach
from tests.stories.processes import kill_pod
from tests.stories.test_kills import OPERATOR, until

pytestmark = pytest.mark.timeout(400)
EPOCHS, SHARDS, SIZE = 2, 500, 10
VICTIMS = ["worker", "trainer", "brain", "operator", "ps", "worker", "trainer"]
STALE = 1.3  # times the loss: what a few workers can be behind each other, at a hundredth per shard
Data = dict[str, Any]


class Job:
    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self._folder, self.ledger = client, folder, Ledger(folder)
        self.uid = ""

    async def submit(self) -> None:
        env = {"COUNT": "1", "RECORDS": str(SHARDS * SIZE), "SIZE": str(SIZE), "EPOCHS": str(EPOCHS)}
        env |= {"OWN": "0.3", "SHARED": "0.01", "EDL_CHECKPOINT_SECONDS": "2"}
        job = planned_job(self._folder, **env)
        made = await until(lambda: self.client.create(JOBS, job, namespace="default"), "the kind is served")
        self.uid = made["metadata"]["uid"]

    async def until_more(self, count: int, why: str) -> None:
        goal = len(self.ledger.losses) + count

        async def look() -> bool:
            return len(self.ledger.losses) >= goal

        await until(look, f"{count} more shards {why}")

    async def until_saved(self) -> None:
        """What is known now is in a checkpoint: the second one from now shows that the first is complete."""
        folder = self._folder / "checkpoints" / self.uid

        def newest() -> int:
            return max((int(shard.parent.name) for shard in folder.glob("*/shard-*")), default=0)

        goal = newest() + 2

        async def look() -> bool:
            return newest() >= goal

        await until(look, f"checkpoint {goal}")

    async def kill(self, role: str, rng: random.Random) -> None:
        async def attempt() -> list[int]:
            labels = {"edl.dev/job": "j", "edl.dev/role": role}
            pods = (await self.client.list(PODS, namespace="default", labels=labels)).items
            return kill_pod(self.uid, rng.choice(pods)["metadata"]["name"]) if pods else []

        await until(attempt, f"a {role} to kill")

    async def end(self) -> None:
        (self._folder / "release").touch()

        async def over() -> bool:
            status: Data = (await self.client.get(JOBS, "j", namespace="default")).get("status") or {}
            assert status.get("phase") != "Failed", status
            return status.get("phase") == "Succeeded"

        await until(over, "the job succeeds")

    def check(self) -> None:
        ends = self.ledger.lines("end")
        assert ends, "no worker saw the end"
        assert {(line["least"], line["most"]) for line in ends} == {(EPOCHS, EPOCHS)}, "records were lost or came twice"
        trained = {(line["epoch"], line["shard"]) for line in self.ledger.lines("trained") if not line["void"]}
        assert trained == {(epoch, shard) for epoch in range(EPOCHS) for shard in range(SHARDS)}


async def test_anybody_may_be_killed_and_every_record_counts_once(tmp_path: Path) -> None:
    rng = random.Random()
    port = free_port()  # Brain's, which must be the same after it was killed
    few = tmp_path / "few.json"
    few.write_text('{"max_workers": 3}')
    key = tmp_path / "home" / "brain.key"
    services = [
        ("api", ["up", "--foreground", "--cpu", "8", "--memory", "16Gi", "--no-operator"]),
        ("brain", ["brain", "--listen", f"127.0.0.1:{port}", "--key", str(key), "--settings", str(few)]),
        ("operator", ["operator", *OPERATOR, "--brain-url", f"http://127.0.0.1:{port}", "--brain-key", str(key)]),
    ]
    async with machine(tmp_path, services, nodes=1) as made:
        client = await reach(made, 1)
        try:
            job = Job(client, tmp_path / "job")
            (tmp_path / "job").mkdir()
            await job.submit()
            await job.until_more(1, "since it was submitted")
            victims = rng.sample(VICTIMS, len(VICTIMS))
            marks: list[tuple[str, int, float]] = []
            for victim in victims:
                await job.until_more(rng.randint(2, 12), f"before the kill of {victim}, of {victims}")
                loss = min(job.ledger.losses)
                if victim == "ps":
                    await job.until_saved()
                marks.append((victim, len(job.ledger.losses), loss))
                if victim in ("brain", "operator"):
                    made.kill(victim)
                else:
                    await job.kill(victim, rng)
            await job.until_more(2, f"after all kills, of {victims}")
            await job.end()
            job.check()
            for victim, count, loss in marks:
                later = max(job.ledger.losses[count:])
                assert later <= STALE * loss, f"the loss was {loss} before the kill of {victim}, then {later}"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{made.logs()}") from None
        finally:
            await client.close()
