"""Whether two operators with the Deployment's own resources bear a load: memory, throttling, and who leads.

Each operator is in a control group with the memory limit and the share of CPU that `edl install` gives it, as a kubelet
would put it. The lease is read every second: a leader that changes, or that renews late, was short of something.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.kube.contenders import CONTENDERS, WORKERS
from bench.kube.stage import Stage, staged
from bench.kube.startup import NODE, NODES, submit, warm_up, watching
from tests.tier_kube.cluster import cgroups

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.quantity import NANO, nano
from edl.install.options import InstallOptions
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.errors import ApiError
from edl.operator.settings import LEASE, NAMESPACE

OPERATORS = 2
SETTLE = 60.0  # seconds that the lease is watched after the last pod runs
CONTENDER = "pytorch"


@dataclass
class Group:
    """The control group of one operator."""

    name: str
    memory_limit: int
    cpu_request: float

    def make(self) -> None:
        cgroups.create(self.name)
        for file, text in (
            ("memory.limit_in_bytes", str(self.memory_limit)),
            ("memory.max", str(self.memory_limit)),
            ("cpu.shares", str(max(2, round(1024 * self.cpu_request)))),
            ("cpu.weight", str(max(1, round(100 * self.cpu_request)))),
        ):
            self._write(file, text)

    def join(self) -> None:
        """In the new process, before it becomes the operator."""
        for tree in cgroups.hierarchies():
            with contextlib.suppress(OSError):
                (tree / self.name / "cgroup.procs").write_text(str(os.getpid()))

    @property
    def peak(self) -> int:
        return int(self._read("memory.max_usage_in_bytes", "memory.peak") or 0)

    @property
    def kills(self) -> int:
        return self._counted("oom_kill", "memory.oom_control", "memory.events")

    @property
    def throttled(self) -> int:
        return self._counted("nr_throttled", "cpu.stat")

    def _write(self, file: str, text: str) -> None:
        """Where it is: versions of control groups name things differently."""
        for tree in cgroups.hierarchies():
            if (tree / self.name / file).exists():
                (tree / self.name / file).write_text(text)

    def _read(self, *files: str) -> str:
        places = (tree / self.name / file for tree in cgroups.hierarchies() for file in files)
        return next((place.read_text().strip() for place in places if place.exists()), "")

    def _counted(self, word: str, *files: str) -> int:
        lines = (line.split() for line in self._read(*files).splitlines())
        return next((int(line[1]) for line in lines if line[:1] == [word]), 0)


@dataclass
class Proof:
    jobs: int
    running: float = 0.0
    groups: list[Group] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    kills: int = 0
    throttled: int = 0
    leaders: set[str] = field(default_factory=set)
    latest_renewal: float = 0.0
    """The oldest that the lease was ever seen, in seconds."""


async def prove(jobs: int) -> Proof:
    options, proof = InstallOptions(), Proof(jobs)
    limit, request = nano(options.memory_limit) // NANO, nano(options.cpu) / NANO
    proof.groups = [Group(f"edl-bench-{os.getpid()}-{number}", limit, request) for number in range(OPERATORS)]
    with tempfile.TemporaryDirectory() as directory:
        async with staged(Path(directory), nodes=NODES, resources=NODE) as stage, _operators(stage, proof.groups):
            await _load(stage, proof)
            proof.peaks = [group.peak for group in proof.groups]
            proof.kills = sum(group.kills for group in proof.groups)
            proof.throttled = sum(group.throttled for group in proof.groups)
    return proof


async def _load(stage: Stage, proof: Proof) -> None:
    contender = CONTENDERS[CONTENDER]
    async with watching(stage.client) as pods:
        await warm_up(stage.client, contender)
        election = asyncio.create_task(_watch_lease(stage, proof))
        try:
            started = time.monotonic()
            await submit(stage.client, contender, proof.jobs)
            while sum(pod.status.phase == "Running" for pod in pods.all()) < proof.jobs * WORKERS:
                await asyncio.sleep(0.2)
            proof.running = time.monotonic() - started
            await asyncio.sleep(SETTLE)
        finally:
            election.cancel()
            await asyncio.gather(election, return_exceptions=True)


async def _watch_lease(stage: Stage, proof: Proof) -> None:
    while True:
        spec = (await stage.client.get(LEASES, LEASE, namespace=NAMESPACE))["spec"]
        proof.leaders.add(spec.get("holderIdentity", ""))
        proof.latest_renewal = max(proof.latest_renewal, time.time() - timestamp.seconds(spec["renewTime"]))
        await asyncio.sleep(1.0)


@contextlib.asynccontextmanager
async def _operators(stage: Stage, groups: list[Group]) -> AsyncIterator[None]:
    """One leads, the other waits with warm caches. Each has a port of its own for the job service."""
    words = ["operator", "--kubeconfig", str(stage.kubeconfig), "--service", "127.0.0.1:0"]
    command = [sys.executable, "-m", "edl.cli.main", *words, "--service-url", "https://127.0.0.1:{port}"]
    processes: list[asyncio.subprocess.Process] = []
    try:
        for number, group in enumerate(groups):
            group.make()
            with (stage.directory / f"edl-{number}.log").open("ab") as log:
                processes.append(
                    await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, preexec_fn=group.join)
                )
            while not await _led(stage):
                if processes[-1].returncode is not None:
                    raise RuntimeError(
                        f"the operator ended: {(stage.directory / f'edl-{number}.log').read_text()[-2000:]}"
                    )
                await asyncio.sleep(0.2)
        yield
    finally:
        for process in processes:
            if process.returncode is None:
                process.terminate()
            await process.wait()
        for group in groups:
            cgroups.delete(group.name)


async def _led(stage: Stage) -> bool:
    try:
        return bool((await stage.client.get(LEASES, LEASE, namespace=NAMESPACE))["spec"].get("holderIdentity"))
    except ApiError:
        return False
