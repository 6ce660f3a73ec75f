"""kill -9 of any one process of a cluster, and of all of it at once, at a random moment of a job.

The job is the sample of the designs, made fault tolerant, with a script that can be checked to the last update.

The trainers write down outside of the product what they trained and what was acknowledged, and count every update into
the parameters. In the end each task counts once, and the parameters are exact.
"""

import asyncio
import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edl.kube.client import Client
from edl.kube.errors import KubeError
from edl.operator.job_service.configmap import CONFIGMAPS
from edl.operator.resources import PODS, TRAINING_JOBS
from edl.runtime.master.progress import decode
from tests.runtime import counting
from tests.runtime.ledger import surviving
from tests.stories.machine import machine, reach
from tests.stories.processes import kill_pod
from tests.stories.test_training import sample

PASSES, CHUNKS, STEPS = 10, 40, 2
NAME = "paddlejob"
PATIENCE = 120.0
Data = dict[str, Any]
pytestmark = pytest.mark.timeout(400)

NODE = ["--cpu", "2", "--memory", "8Gi"]
OPERATOR = ["--lease", "4", "--service", "127.0.0.1:0", "--service-url", "https://127.0.0.1:{port}"]


class Job:
    """The job under test: its ledger, and what a user sees of it."""

    def __init__(self, client: Client, root: Path) -> None:
        self.client, self._root = client, root
        self.ledger, self._release = root / "ledger", root / "release"
        self.uid = ""

    async def submit(self) -> None:
        manifest = sample("trainingjob.yaml", "default", self._workspace())
        data = {"name": "data", "hostPath": {"path": str(self._root / "data"), "type": "DirectoryOrCreate"}}
        manifest["spec"] |= {"fault_tolerant": True, "backoff_limit": 20, "volumes": [data]}
        made = await until(lambda: self._create(manifest), "the kind is served")
        self.uid = made["metadata"]["uid"]

    def _workspace(self) -> Path:
        """What the image of the sample would bring: `train.py`."""
        variables = {
            "LEDGER": str(self.ledger),
            "RELEASE": str(self._release),
            "CHUNKS": str(CHUNKS),
            "STEPS": str(STEPS),
            "SECONDS": "0.5",
        }
        workspace = self._root / "workspace"
        workspace.mkdir()
        run = f"runpy.run_path({counting.__file__!r}, run_name='__main__')"
        (workspace / "train.py").write_text(f"import os, runpy\nos.environ.update({variables!r})\n{run}\n")
        return workspace

    async def _create(self, manifest: Data) -> Data | None:
        try:
            return await self.client.create(TRAINING_JOBS, manifest, namespace="default")
        except KubeError:
            return None

    def lines(self, kind: str) -> list[Data]:
        text = self.ledger.read_text() if self.ledger.exists() else ""
        return [line for line in map(json.loads, text.splitlines()) if line["kind"] == kind]

    async def until_more(self, what: str) -> None:
        """It goes on: more tasks are acknowledged than there were."""
        before = len(self.lines("acknowledged"))
        await until(lambda: _now(len(self.lines("acknowledged")) > before + 1), f"it goes on after {what}")

    async def kill(self, role: str, rng: random.Random) -> None:
        async def attempt() -> list[int]:
            labels = {"edl.dev/job": NAME, "edl.dev/role": role}
            pods = (await self.client.list(PODS, namespace="default", labels=labels)).items
            return kill_pod(self.uid, rng.choice(pods)["metadata"]["name"]) if pods else []

        await until(attempt, f"a {role} to kill")

    async def end(self) -> None:
        self._release.touch()
        await until(self._succeeded, "the job succeeds")

    async def _succeeded(self) -> bool:
        status: Data = (await self.client.get(TRAINING_JOBS, NAME, namespace="default")).get("status") or {}
        assert status.get("phase") != "failed", status
        return status.get("phase") == "succeeded"

    async def check(self) -> None:
        tasks = {(number, chunk) for number in range(PASSES) for chunk in range(CHUNKS)}
        kept = surviving(self.lines("acknowledged"), await self._rollbacks())
        assert {task: count for task, count in kept.items() if count > 1} == {}, "done twice"
        ended = {line["pid"] for line in self.lines("end")}
        unwritten = {(line["pass"], line["chunk"]) for line in self.lines("trained") if line["pid"] not in ended}
        assert tasks - set(kept) <= unwritten, "only one who was killed may have left a task unacknowledged"
        ends = self.lines("end")
        assert ends
        for line in ends:
            assert line["total"] == [PASSES * CHUNKS * STEPS] * 3, "an update was lost, or counted twice"
            assert line["rows"] == [PASSES] * CHUNKS

    async def _rollbacks(self) -> list[tuple[int, int]]:
        found = (await self.client.list(CONFIGMAPS, namespace="default", labels={"edl.dev/job": NAME})).items
        [queue] = [value for one in found for key, value in one["binaryData"].items() if key.endswith("queue")]
        return decode(base64.b64decode(queue)).rollbacks


async def _now(value: Any) -> Any:
    return value


async def until(condition: Callable[[], Any], what: str) -> Any:
    """The API server may be away meanwhile."""
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    if found := await condition():
                        return found
                except KubeError:
                    pass
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"never came true: {what}") from None


async def test_any_one_process_may_be_killed(tmp_path: Path) -> None:
    rng = random.Random()
    services = [
        ("api", ["up", "--foreground", "--cpu", "10m", "--no-operator"]),  # its node has no room for anything
        ("operator", ["operator", *OPERATOR]),
        *((name, ["node", "--name", name, *NODE]) for name in ("node-a", "node-b")),
    ]
    async with machine(tmp_path, services, nodes=3) as made:
        client = await reach(made, 3)
        try:
            job = Job(client, tmp_path)
            await job.submit()
            await job.until_more("its submission")
            victims = ["api", "operator", "node-a", "node-b", "master", "pserver", "trainer"]
            rng.shuffle(victims)
            for victim in victims:
                await asyncio.sleep(rng.uniform(0.0, 1.0))
                if victim in ("master", "pserver", "trainer"):
                    await job.kill(victim, rng)
                else:
                    made.kill(victim)
                await job.until_more(f"the kill of {victim}, of {victims}")
            await job.end()
            await job.check()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{made.logs()}") from None
        finally:
            await client.close()


async def test_all_of_it_may_be_killed_at_once(tmp_path: Path) -> None:
    rng = random.Random()
    async with machine(tmp_path, [("up", ["up", "--foreground", "--nodes", "2", *NODE])], nodes=2) as made:
        client = await reach(made, 2)
        try:
            job = Job(client, tmp_path)
            await job.submit()
            for _ in range(2):
                await job.until_more("its start")
                await asyncio.sleep(rng.uniform(0.0, 1.5))
                made.kill_tree("up")
            await job.until_more("everything was killed")
            await job.end()
            await job.check()
        except AssertionError as error:
            raise AssertionError(f"{error}\n{made.logs()}") from None
        finally:
            await client.close()
