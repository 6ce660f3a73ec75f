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

from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.operator.job_service.configmap_store import CONFIGMAPS
from edl.operator.resources import PODS, TRAINING_JOBS
from edl.operator.settings import NAMESPACE
from edl.runtime.tasks.progress import decode
from tests.runtime import counting
from tests.runtime.ledger import surviving
from tests.stories.machine import machine, reach
from tests.stories.processes import kill_pod
from tests.stories.story import Story
from tests.stories.test_training import directory, sample, workspace
from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.installed import leader

PASSES, CHUNKS, STEPS = 10, 40, 2
NAME = "paddlejob"
PATIENCE = 120.0
Data = dict[str, Any]
pytestmark = pytest.mark.timeout(400)

NODE = ["--cpu", "2", "--memory", "8Gi"]
OPERATOR = ["--lease", "4", "--service", "127.0.0.1:0", "--service-url", "https://127.0.0.1:{port}"]


# What the image of the sample would bring. The ledger is outside of the product, beside the data.
SCRIPT = f"""
import os, runpy
data = os.environ.get("KEPT", os.environ["EDL_DATA_DIR"])
os.environ.update(LEDGER=os.path.join(data, "ledger"), RELEASE=os.path.join(data, "release"))
os.environ.update(CHUNKS="{CHUNKS}", STEPS="{STEPS}", SECONDS="0.5")
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "counting.py"), run_name="__main__")
"""


class Job:
    """The job under test: its ledger, and what a user sees of it. `own_disks`: of each pod, and gone with it."""

    def __init__(
        self, client: Client, root: Path, namespace: str = "default", image: str = "any", *, own_disks: bool = False
    ) -> None:
        self.client, self.namespace, self._image, self._own_disks = client, namespace, image, own_disks
        self._files, self._data = workspace(root, SCRIPT, counting=Path(counting.__file__)), directory(root, "kept")
        self.ledger, self._release = self._data / "ledger", self._data / "release"
        self.uid = ""
        self._passes = 2 if own_disks else PASSES

    async def submit(self) -> None:
        manifest = sample("trainingjob.yaml", self.namespace, self._image, self._files, self._data)
        manifest["spec"] |= {"fault_tolerant": True, "backoff_limit": 20}
        if self._own_disks:
            manifest["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
            manifest["spec"]["trainer"]["passes"] = self._passes
            self._keep_ledger(manifest["spec"]["trainer"]["template"]["spec"])
        made = await until(lambda: self._create(manifest), "the kind is served")
        self.uid = made["metadata"]["uid"]

    def _keep_ledger(self, pod: Data) -> None:
        """Elsewhere than among the data, which goes with its pod."""
        pod["volumes"].append({"name": "kept", "hostPath": {"path": str(self._data)}})
        pod["containers"][0]["volumeMounts"].append({"name": "kept", "mountPath": "/kept"})
        pod["containers"][0]["env"] = [{"name": "KEPT", "value": "/kept"}]

    async def _create(self, manifest: Data) -> Data | None:
        try:
            return await self.client.create(TRAINING_JOBS, manifest, namespace=self.namespace)
        except KubeError:
            return None

    def lines(self, kind: str) -> list[Data]:
        text = self.ledger.read_text() if self.ledger.exists() else ""
        return [line for line in map(json.loads, text.splitlines()) if line["kind"] == kind]

    async def until_more(self, what: str) -> None:
        """It goes on: more tasks are acknowledged than there were."""
        before = len(self.lines("acknowledged"))
        await until(lambda: _now(len(self.lines("acknowledged")) > before + 1), f"it goes on after {what}")

    async def pod(self, role: str, rng: random.Random) -> Data:
        """One that runs."""

        async def look() -> Data | None:
            labels = {"edl.dev/job": NAME, "edl.dev/role": role}
            pods = (await self.client.list(PODS, namespace=self.namespace, labels=labels)).items
            running = [pod for pod in pods if pod.get("status", {}).get("phase") == "Running"]
            return rng.choice(running) if running else None

        found: Data = await until(look, f"a {role} to kill")
        return found

    async def kill(self, role: str, rng: random.Random) -> None:
        async def attempt() -> list[int]:
            return kill_pod(self.uid, (await self.pod(role, rng))["metadata"]["name"])

        await until(attempt, f"a process of a {role} to kill")

    async def end(self) -> None:
        self._release.touch()
        await until(self._succeeded, "the job succeeds")

    async def _succeeded(self) -> bool:
        status: Data = (await self.client.get(TRAINING_JOBS, NAME, namespace=self.namespace)).get("status") or {}
        assert status.get("phase") != "failed", status
        return status.get("phase") == "succeeded"

    async def check(self) -> None:
        tasks = {(number, chunk) for number in range(self._passes) for chunk in range(CHUNKS)}
        kept = surviving(self.lines("acknowledged"), await self._rollbacks())
        assert {task: count for task, count in kept.items() if count > 1} == {}, "done twice"
        ended = {_who(line) for line in self.lines("end")}
        unwritten = {(line["pass"], line["chunk"]) for line in self.lines("trained") if _who(line) not in ended}
        assert tasks - set(kept) <= unwritten, "only one who was killed may have left a task unacknowledged"
        ends = self.lines("end")
        assert ends
        for line in ends:
            assert line["total"] == [self._passes * CHUNKS * STEPS] * 3, "an update was lost, or counted twice"
            assert line["rows"] == [self._passes] * CHUNKS

    async def _rollbacks(self) -> list[tuple[int, int]]:
        found = (await self.client.list(CONFIGMAPS, namespace=self.namespace, labels={"edl.dev/job": NAME})).items
        [queue] = [value for one in found for key, value in one["binaryData"].items() if key.endswith("queue")]
        return decode(base64.b64decode(queue)).rollbacks


def _who(line: Data) -> tuple[str, int]:
    """Containers number their processes each for itself."""
    return line["pod"], line["pid"]


async def _now(value: Any) -> Any:
    return value


async def until(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """The API server may be away meanwhile."""
    try:
        async with asyncio.timeout(patience):
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


@pytest.mark.case("acceptance-23")
async def test_a_server_that_is_lost_with_its_disk_costs_no_task(story_on_both: Story, tmp_path: Path) -> None:
    """As on the default volume of a real cluster: it goes on from the copies that its neighbour has."""
    story = story_on_both
    job = Job(story.client, tmp_path, story.namespace, story.backend.python, own_disks=True)
    await job.submit()
    await job.until_more("its submission")
    lost = (await job.pod("pserver", random.Random()))["metadata"]
    await story.client.delete(PODS, lost["name"], namespace=story.namespace, grace=0, uid=lost["uid"])
    await until(lambda: _now(any(line["era"] > 1 for line in job.lines("acknowledged"))), "it goes on without it")
    await job.end()
    await job.check()


OF_THE_CLUSTER = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
OF_NODES = ["node-1-kubelet", "node-2-containerd"]


async def test_any_one_process_of_a_real_cluster_may_be_killed(
    story_in_pods: Story, own_cluster: Cluster, tmp_path: Path
) -> None:
    """Its parts are the same and others: each is started again at once, as by an init system."""
    rng, backend = random.Random(), story_in_pods.backend
    job = Job(backend.client, tmp_path, story_in_pods.namespace, backend.python)
    await job.submit()
    await job.until_more("its submission")
    victims = [*OF_THE_CLUSTER, *OF_NODES, "operator", "master", "pserver", "trainer"]
    rng.shuffle(victims)
    for victim in victims:
        await asyncio.sleep(rng.uniform(0.0, 1.0))
        if victim in ("master", "pserver", "trainer"):
            await backend.kill_pod(job.namespace, (await job.pod(victim, rng))["metadata"]["name"])
        elif victim == "operator":
            old = await until(lambda: asyncio.to_thread(leader, own_cluster.kubectl), "an operator leads")
            await backend.kill_pod(NAMESPACE, old)
        else:
            await asyncio.to_thread(own_cluster.processes.crash, victim)
        await job.until_more(f"the kill of {victim}, of {victims}")
        await until_steady(own_cluster)
    await job.end()
    await job.check()


async def until_steady(cluster: Cluster, seconds: float = 2.0) -> None:
    """All its processes stay. A controller manager that meets an API server which has just started, and as long as it
    has read no roles denies everything, gives up; an init system starts it again."""
    loop = asyncio.get_running_loop()
    since = loop.time()
    while loop.time() < since + seconds:
        if await asyncio.to_thread(cluster.processes.restart_ended):
            since = loop.time()
        await asyncio.sleep(0.1)


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
