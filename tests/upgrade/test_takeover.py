"""Jobs of every kind that began under the version before go on under this one: the same pods, every task once."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.demo.task_counts import count_tasks
from edl.kube.auth.kubeconfig import from_kubeconfig
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport
from tests.ports import free_port
from tests.upgrade.previous import REPOSITORY, Version, stop, unpack
from tests.upgrade.service_address import service_address

pytestmark = pytest.mark.timeout(280)

PODS = Resource("", "v1", "pods", "Pod")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
TRAINING = Resource("paddlepaddle.org", "v1", "trainingjobs", "TrainingJob")
PYTORCH = Resource("elastic.pytorch.org", "v1alpha1", "elasticjobs", "ElasticJob")
EASYDL = Resource("elastic.iml.github.io", "v1alpha1", "elasticjobs", "ElasticJob")
KINDS = {"fit": TRAINING, "ddp": PYTORCH, "ctr": EASYDL}
SERVICE = ("127.0.0.1:0", "https://127.0.0.1:{port}")
CHUNKS, PASSES = 20, 3
REQUESTS = {"requests": {"cpu": "100m", "memory": "64Mi"}}
Data = dict[str, Any]


class Upgrade:
    """Two versions on one home, and three jobs that end when they are told to."""

    def __init__(self, root: Path) -> None:
        self._root, self.home = root, root / "home"
        self.old = Version(unpack(root / "previous"), self.home)
        self.new = Version(REPOSITORY, self.home)
        self.ledger, self._release = root / "ledger", root / "release"

    def release(self) -> None:
        self._release.touch()

    def operator(self, version: Version, name: str, service: tuple[str, str] = SERVICE) -> "subprocess.Popen[bytes]":
        """`service`: where its job service listens, and the URL for pods."""
        words = ["operator", "--lease", "15", "--service", service[0], "--service-url", service[1]]
        return version.start(self._root / f"{name}.log", *words, "--kubeconfig", str(self.home / "kubeconfig"))

    def submit(self, version: Version) -> None:
        manifests = self._root / "jobs.yaml"
        manifests.write_text(yaml.safe_dump_all(self._jobs()))
        version("submit", str(manifests))
        # The plan of the EasyDL job, as a user writes it.
        plan = self._root / "plan.yaml"
        plan.write_text(yaml.safe_dump(_plan()))
        version("submit", str(plan))

    def _jobs(self) -> list[Data]:
        script = REPOSITORY / "examples" / "fit_a_line" / "train.py"
        env = {"LEDGER": str(self.ledger), "CHUNKS": CHUNKS, "SAMPLES": 32 * CHUNKS, "SECONDS_PER_TASK": 0.5}
        words = " ".join(f"{name}={value}" for name, value in env.items())
        waits = ["sh", "-c", f"while [ ! -e {self._release} ]; do sleep 0.1; done"]
        return [_training(f"{words} python {script}"), _pytorch(waits), _easydl(waits)]


def _training(entrypoint: str) -> Data:
    spec = {
        "fault_tolerant": True,
        "mountPath": "/data",
        "master": {"resources": REQUESTS},
        "pserver": {"min-instance": 2, "resources": REQUESTS},
        "trainer": {
            "entrypoint": entrypoint, "passes": PASSES, "min-instance": 2, "max-instance": 2, "resources": REQUESTS,
        },
    }  # fmt: skip
    return {"apiVersion": TRAINING.api_version, "kind": TRAINING.kind, "metadata": {"name": "fit"}, "spec": spec}


def _template(command: list[str]) -> Data:
    return {"spec": {"containers": [{"name": "main", "image": "any", "command": command, "resources": REQUESTS}]}}


def _pytorch(command: list[str]) -> Data:
    worker = {"replicas": 2, "template": _template(command)}
    spec = {"minReplicas": 2, "maxReplicas": 2, "replicaSpecs": {"Worker": worker}}
    return {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.kind, "metadata": {"name": "ddp"}, "spec": spec}


def _easydl(command: list[str]) -> Data:
    spec = {
        "distributionStrategy": "ring-allreduce",
        "trainer": {"template": _template(command)},
        "worker": {"template": _template(command)},
    }
    return {"apiVersion": EASYDL.api_version, "kind": EASYDL.kind, "metadata": {"name": "ctr"}, "spec": spec}


def _plan() -> Data:
    spec = {"selector": {"name": "ctr"}, "worker": {"replicas": 2, "resource": {"cpu": "100m", "memory": 64}}}
    meta = {"name": "by-hand"}
    return {"apiVersion": "elastic.easydl.org/v1alpha1", "kind": "JobResource", "metadata": meta, "spec": spec}


@pytest.fixture
def upgrade(tmp_path: Path) -> Iterator[Upgrade]:
    made = Upgrade(tmp_path)
    yield made
    made.release()
    made.new("down", "--delete")


@asynccontextmanager
async def connected(upgrade: Upgrade) -> AsyncIterator[Client]:
    account = from_kubeconfig([upgrade.home / "kubeconfig"])
    client = Client(HttpTransport(account), rate_limiter=RateLimiter(qps=1000, burst=1000))
    try:
        yield client
    finally:
        await client.close()


async def until(client: Client, name: str, holds: Callable[[Data], bool]) -> Data:
    while not holds(found := await client.get(KINDS[name], name, namespace="default")):
        await asyncio.sleep(0.1)
    return found


def phase(*wanted: str) -> Callable[[Data], bool]:
    return lambda job: str(job.get("status", {}).get("phase", "")).lower() in wanted


async def all_running(client: Client) -> None:
    for name in KINDS:
        await until(client, name, phase("running"))
    # An EasyDL job runs with its trainer alone; its workers come with the plan.
    await until(client, "ctr", lambda job: job["status"]["replicaStatuses"].get("worker", {}).get("active") == 2)


async def pods(client: Client) -> dict[str, tuple[str, int]]:
    """uid and restarts by name."""
    found = (await client.list(PODS, namespace="default")).items
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for pod in found
    }


async def holder(client: Client) -> str:
    lease: Data = await client.get(LEASES, "edl-operator", namespace="edl-system")
    return str(lease["spec"].get("holderIdentity") or "")


def every_task_counts_once(upgrade: Upgrade) -> None:
    tasks = count_tasks(upgrade.ledger, chunks=CHUNKS, passes=PASSES, killed=())
    assert tasks.exactly_once, (tasks, upgrade.ledger.read_text())


async def test_an_operator_takes_over_from_the_version_before(upgrade: Upgrade) -> None:
    await asyncio.to_thread(upgrade.old, "up", "--nodes", "2", "--cpu", "4", "--memory", "4Gi", "--no-operator")
    operator = upgrade.operator(upgrade.old, "old")
    try:
        async with connected(upgrade) as client:
            while not await _serves(client):
                await asyncio.sleep(0.1)
            await asyncio.to_thread(upgrade.submit, upgrade.old)
            await all_running(client)
            before, led = await pods(client), await holder(client)
            await asyncio.to_thread(stop, operator)
            operator = upgrade.operator(upgrade.new, "new")
            while (now := await holder(client)) in ("", led):
                await asyncio.sleep(0.1)
            assert now != led
            # It works: a change of the spec is carried out, and nobody else is touched.
            grow = {"spec": {"minReplicas": 3, "maxReplicas": 3, "replicaSpecs": {"Worker": {"replicas": 3}}}}
            await client.patch(PYTORCH, "ddp", grow, namespace="default")
            await until(client, "ddp", lambda job: job["status"]["scale"]["current"] == 3)
            after = await pods(client)
            assert {name: after[name] for name in before} == before
            upgrade.release()
            for name in KINDS:
                await until(client, name, phase("succeeded"))
            every_task_counts_once(upgrade)
    finally:
        await asyncio.to_thread(stop, operator)


async def _serves(client: Client) -> bool:
    found = await client.list(Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", namespaced=False))
    return len(found.items) >= 4


async def test_a_home_of_the_version_before_is_brought_up(upgrade: Upgrade) -> None:
    """`edl down` of this version stops the cluster of the one before; `edl up` then brings its jobs back."""
    await asyncio.to_thread(upgrade.old, "up", "--nodes", "2", "--cpu", "4", "--memory", "4Gi")
    await asyncio.to_thread(upgrade.submit, upgrade.old)
    async with connected(upgrade) as client:
        await all_running(client)
        before = await pods(client)
    said = await asyncio.to_thread(upgrade.new, "down")
    assert "has stopped" in said
    await asyncio.to_thread(upgrade.new, "up", "--nodes", "2", "--cpu", "4", "--memory", "4Gi")
    async with connected(upgrade) as client:
        upgrade.release()
        for name in KINDS:
            await until(client, name, phase("succeeded"))
        jobs = json.dumps([await client.get(KINDS[name], name, namespace="default") for name in KINDS])
        assert "Failed" not in jobs, jobs
        every_task_counts_once(upgrade)
        after = await pods(client)
        assert {name for name in before if "trainer" in name} <= set(after), "finished trainers stay for their logs"


async def test_operators_of_both_versions_run_side_by_side(upgrade: Upgrade) -> None:
    """As an upgrade has it, and as its reverse has: whoever leads, a job made under either goes on."""
    await asyncio.to_thread(upgrade.old, "up", "--nodes", "2", "--cpu", "4", "--memory", "4Gi", "--no-operator")
    running: list[subprocess.Popen[bytes]] = []
    try:
        async with connected(upgrade) as client, service_address() as address:

            def start(version: Version, name: str) -> int:
                port = free_port()
                service = f"127.0.0.1:{port}", f"https://127.0.0.1:{address.port}"
                running.append(upgrade.operator(version, name, service))
                return port

            async def hand_over(to: int) -> None:
                led = await holder(client)
                await asyncio.to_thread(stop, running.pop(0))
                address.leader = to
                await _other_leader(client, led)

            address.leader = start(upgrade.old, "old")
            while not await _serves(client):
                await asyncio.sleep(0.1)
            await asyncio.to_thread(upgrade.submit, upgrade.old)
            await all_running(client)
            made_by_old = await pods(client)
            await hand_over(start(upgrade.new, "new"))
            back = start(upgrade.old, "back")  # a rollback has begun while the new one leads
            waits = ["sh", "-c", f"while [ ! -e {upgrade._release} ]; do sleep 0.1; done"]
            extra = {**_pytorch(waits), "metadata": {"name": "made-by-new"}}
            await client.create(PYTORCH, extra, namespace="default")
            await _reaches(client, "made-by-new", "running")
            before = await pods(client)
            await hand_over(back)
            after = await pods(client)
            assert {name: after[name] for name in before} == before, "nobody was touched by either"
            assert made_by_old.items() <= before.items()
            upgrade.release()
            for name in KINDS:
                await until(client, name, phase("succeeded"))
            await _reaches(client, "made-by-new", "succeeded")
            every_task_counts_once(upgrade)
    finally:
        for one in running:
            await asyncio.to_thread(stop, one)


async def _other_leader(client: Client, than: str) -> str:
    while (now := await holder(client)) in ("", than):
        await asyncio.sleep(0.1)
    return now


async def _reaches(client: Client, name: str, wanted: str) -> None:
    while not phase(wanted)(await client.get(PYTORCH, name, namespace="default")):
        await asyncio.sleep(0.1)
