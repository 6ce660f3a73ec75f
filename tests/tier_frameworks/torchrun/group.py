"""Real torchrun agents around a real job service: started, killed and scaled as a test says, without a cluster."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from edl.operator.job_service import JobRecord, JobService, MemoryStore
from edl.protocol.progress import LastProgress
from edl.protocol.rounds import Round, RoundChange, pod_of
from edl.runtime.torch.connection import ConnectionThread
from tests.runtime.harness import reported

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "pytorch" / "train.py"
PATIENCE = 90.0


class Leader:
    """The job service in a thread of the test, with one job whose record the test edits."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.record = JobRecord(uid="u", token="secret")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = 0
        self.up()

    def edit(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)
        self._loop.call_soon_threadsafe(self._service.changed, ("ns", "j", "edl"))

    def environment(self, pod: str) -> dict[str, str]:
        """By which a pod of this name finds the service."""
        return {
            "PATH": os.environ["PATH"],
            "EDL_JOB_NAMESPACE": "ns",
            "EDL_JOB_NAME": "j",
            "EDL_JOB_TOKEN": "secret",
            "EDL_SERVICE_URL": f"http://127.0.0.1:{self.port}",
            "EDL_POD_NAME": pod,
            "POD_IP": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
        }

    def up(self) -> None:
        self._service = JobService(self.store, lambda namespace, name: [self.record])
        self._service.lead()
        self._runner = self._do(self._service.serve("127.0.0.1", self.port))
        self.port = self._runner.addresses[0][1]

    def down(self) -> None:
        """The leader is gone and nobody has taken over: connections break and are refused."""
        self._loop.call_soon_threadsafe(self._service.retire)
        self._do(self._runner.cleanup())

    def shut_out(self, pod: str, connection: ConnectionThread) -> None:
        """The pod's agent reaches nobody where the service is."""
        inner = connection._connection
        inner._address = replace(inner._address, url=inner._address.url.replace(f":{self.port}/", ":1/"))

        async def hang_up() -> None:
            for session in self._service._sessions.values():
                for agent, one in list(session.rendezvous._connections.items()):
                    if pod_of(agent) == pod:
                        await one.socket.close()

        self._do(hang_up())

    def let_in(self, connection: ConnectionThread) -> None:
        inner = connection._connection
        inner._address = replace(inner._address, url=inner._address.url.replace(":1/", f":{self.port}/"))

    @property
    def change(self) -> RoundChange | None:
        return self._service.change(("ns", "j", "edl"))

    @property
    def progress(self) -> LastProgress | None:
        return self._service.last_progress(("ns", "j", "edl"))

    @property
    def round(self) -> Round | None:
        kept = self.store.kept.get(("ns", "j", "u"))
        return kept.state.round if kept else None

    @property
    def number(self) -> int:
        return self.round.number if self.round else 0

    @property
    def members(self) -> list[str]:
        return [pod_of(member.agent) for member in self.round.members] if self.round else []

    def close(self) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


class Group:
    """The agents of one job. What they print is in files, shown when a test fails."""

    def __init__(self, folder: Path, leader: Leader, *, nnodes: str = "1:4", script: Path = SCRIPT) -> None:
        self.folder, self.leader, self.nnodes, self.script = folder, leader, nnodes, script
        self.trace = folder / "trace"
        self.trace.mkdir(parents=True)
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self._count = 0

    def start(self, *pods: str, args: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> None:
        for pod in pods:
            self._count += 1
            with (self.folder / f"{pod}.{self._count}.log").open("wb") as log:
                self.agents[pod] = subprocess.Popen(
                    [sys.executable, "-m", "torch.distributed.run", str(self.script), *args],
                    env={**self.env(pod), **(env or {})},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                )

    def env(self, pod: str) -> dict[str, str]:
        return {
            **self.leader.environment(pod),
            "PET_RDZV_BACKEND": "edl",
            "PET_RDZV_ID": "u-1",
            "PET_NNODES": self.nnodes,
            "PET_MAX_RESTARTS": "0",
            "LOGLEVEL": "INFO",
        }

    def train(
        self, *pods: str, steps: int = 100_000, pause: float = 0.05, env: Mapping[str, str] | None = None
    ) -> None:
        args = ("--steps", str(steps), "--pause", str(pause), "--every", "5", "--trace", str(self.trace))
        self.start(*pods, args=(*args, "--checkpoint", str(self.folder / "model.pt")), env=env)

    def tree(self, pod: str) -> list[psutil.Process]:
        """The agent's process and all below it."""
        agent = psutil.Process(self.agents[pod].pid)
        return [agent, *agent.children(recursive=True)]

    def workers(self, pod: str) -> list[int]:
        """Processes of this pod that do steps."""
        with contextlib.suppress(psutil.NoSuchProcess):
            pids = {process.pid for process in self.tree(pod)}
            return sorted(pids & {int(file.stem) for file in self.trace.glob("*.jsonl")})
        return []

    def kill(self, pod: str) -> None:
        """All that runs in the pod at once, as when its container is killed."""
        processes = self.tree(pod)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.agents.pop(pod).wait()

    def code(self, pod: str, timeout: float = PATIENCE) -> int:
        return self.agents[pod].wait(timeout)

    def steps(self) -> list[dict[str, Any]]:
        found = []
        for file in self.trace.glob("*.jsonl"):
            lines = file.read_text().splitlines(keepends=True)
            found += [{**json.loads(line), "pid": int(file.stem)} for line in lines if line.endswith("\n")]
        return sorted(found, key=lambda line: line["at"])

    def until_training(self, world: int, more: int = 3) -> list[dict[str, Any]]:
        """Waits until every rank of a world of this size has done some steps since now."""
        since = time.monotonic()

        def ask() -> list[dict[str, Any]] | None:
            fresh = [line for line in self.steps() if line["at"] > since and line["world"] == world]
            counts = [sum(line["rank"] == rank for line in fresh) for rank in range(world)]
            return fresh if min(counts) >= more else None

        return until(ask, f"training with {world} workers")

    def close(self) -> None:
        for pod in list(self.agents):
            if self.agents[pod].poll() is None:
                self.kill(pod)

    def report(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()[-6000:]}" for log in sorted(self.folder.glob("*.log")))


def until(ask: Callable[[], T | None], what: str, timeout: float = PATIENCE) -> T:
    """The first answer that is neither None nor False."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"no {what} within {timeout:g} s")


@contextlib.contextmanager
def group(folder: Path, **settings: Any) -> Iterator[Group]:
    with contextlib.closing(Leader()) as leader, reported(Group(folder, leader, **settings)) as made:
        yield made


def end(process: psutil.Process | int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(process if isinstance(process, int) else process.pid, number)
