"""A job of real processes around a real job service: started, killed and restarted as a test says."""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from edl.operator.job_service import JobRecord, JobService, MemoryStore, RoleRecord
from edl.runtime.rpc import Client
from edl.runtime.tasks.messages import GetStats, QueueStats

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class Service:
    """The job service in a thread of the test, with one job whose record the test edits."""

    def __init__(self, *, interval: float = 0.05, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.store = MemoryStore()
        self.record = JobRecord(uid="u", token="secret", phase="running")
        self._service = JobService(self.store, self._lookup, interval=interval)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = 0
        self.up()

    def _lookup(self, namespace: str, name: str) -> list[JobRecord]:
        return [self.record] if (namespace, name) == ("ns", "j") else []

    def edit(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)
        self._loop.call_soon_threadsafe(self._service.changed, ("ns", "j", self.record.tag))

    def up(self) -> None:
        self._loop.call_soon_threadsafe(self._service.lead)
        self._runner = self._do(self._service.serve("127.0.0.1", self.port, self._tls))
        self.port = self._runner.addresses[0][1]

    def down(self) -> None:
        """The leader is gone and nobody has taken over: connections are refused."""
        self._loop.call_soon_threadsafe(self._service.retire)
        self._do(self._runner.cleanup())

    def progress(self) -> Any:
        return self._service.progress(("ns", "j", self.record.tag))

    def close(self) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


class Job:
    """Processes of one job. What they print is in files, shown when a test fails."""

    def __init__(self, folder: Path, service: Service, **env: str) -> None:
        self.folder, self.service, self._extra = folder, service, env
        self.own_disks = False  # every parameter server has a new folder of its own, as with an emptyDir in its pod
        self.ledger = folder / "ledger"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._count = 0

    def env(self, pod: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "EDL_JOB_NAMESPACE": "ns",
            "EDL_JOB_NAME": "j",
            "EDL_JOB_UID": "u",
            "EDL_JOB_TOKEN": "secret",
            "EDL_SERVICE_URL": f"http://127.0.0.1:{self.service.port}",
            "EDL_POD_NAME": pod,
            "POD_IP": "127.0.0.1",
            "MASTER": "",
            "PADDLE_INIT_PORT": "0",
            "EDL_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "LEDGER": str(self.ledger),
            "RELEASE": str(self.folder / "release"),
            "OPENBLAS_NUM_THREADS": "1",
            **self._extra,
        }

    def start(self, role: str, index: int = 0, **env: str) -> str:
        """Starts a process in pod ROLE-INDEX; under the same name as one that has ended, it is that pod again."""
        pod = f"{role}-{index}"
        command = ["-m", "tests.runtime.counting"] if role == "trainer" else ["-m", "edl.cli.main", role]
        indexed = {} if role == "trainer" else {"EDL_INDEX": str(index), "MASTER": "127.0.0.1:0"}
        self._count += 1
        if role == "pserver" and self.own_disks:
            indexed["EDL_CHECKPOINT_DIR"] = str(self.folder / f"disk-{self._count}")
        with (self.folder / f"{pod}.{self._count}.log").open("wb") as log:
            self.running[pod] = subprocess.Popen(
                [sys.executable, *command],
                env={**self.env(pod), **indexed, **env},
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        return pod

    def start_all(self, pservers: int = 2, trainers: int = 2) -> None:
        roles = {"master": RoleRecord(1), "trainer": RoleRecord(trainers)}
        if pservers:
            roles["pserver"] = RoleRecord(pservers)
        self.service.edit(roles=roles, size=trainers)
        self.start("master")
        for index in range(pservers):
            self.start("pserver", index)
        for index in range(trainers):
            self.start("trainer", index)

    def start_without_master(self, trainers: int) -> None:
        self.service.edit(roles={"trainer": RoleRecord(trainers)}, size=trainers)
        for index in range(trainers):
            self.start("trainer", index, EDL_INDEX=str(index), TRAINERS=str(trainers))

    def kill(self, pod: str, number: signal.Signals = signal.SIGKILL) -> None:
        self.running[pod].send_signal(number)
        if number == signal.SIGKILL:
            self.running.pop(pod).wait()

    def code(self, pod: str, timeout: float = PATIENCE) -> int:
        """The exit code of a process that ends by itself."""
        return self.running[pod].wait(timeout)

    def lines(self, kind: str) -> list[dict[str, Any]]:
        if not self.ledger.exists():
            return []
        lines = [json.loads(line) for line in self.ledger.read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]

    def stat(self) -> QueueStats:
        """What the present master says; waits for one that answers."""

        def ask() -> QueueStats | None:
            kept = self.service.store.kept.get(("ns", "j", "u"))
            slot = kept and kept.state.slots.get("master/0")
            if not slot:
                return None
            try:
                client = Client(slot.address, "secret", timeout=5)
            except OSError:
                return None
            try:
                return client.call(GetStats(), QueueStats)
            except OSError:
                return None
            finally:
                client.close()

        return until(ask, "a master that answers")

    def release(self) -> None:
        """Lets trainers go on that HOLD made wait."""
        (self.folder / "release").touch()

    def until_done(self, count: int) -> None:
        """Waits until the ledger has so many acknowledged tasks."""
        until(lambda: len(self.lines("acknowledged")) >= count or None, f"{count} acknowledged tasks")

    def until_era(self, era: int) -> None:
        """Waits until every parameter server takes part in this era: tasks are given out again."""
        until(lambda: ((found := self.stat()).era == era and not found.gate) or None, f"era {era}")

    def settled(self, kind: str) -> int:
        """How many lines of this kind the ledger has once there were no new ones for a while."""
        count, after = -1, len(self.lines(kind))
        while count != after:
            time.sleep(2.0)  # nothing tells that an answer on its way has been the last
            count, after = after, len(self.lines(kind))
        return count

    def close(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def report(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))


def until(ask: Callable[[], T | None], what: str, timeout: float = PATIENCE) -> T:
    """The first answer that is not None."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        answer = ask()
        if answer is not None:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"no {what} within {timeout:g} s")


class Reporting(Protocol):
    """Processes of a test, whose output is worth reading when it fails."""

    def report(self) -> str: ...

    def close(self) -> None: ...


R = TypeVar("R", bound=Reporting)


@contextmanager
def reported(made: R) -> Iterator[R]:
    """Shows what its processes wrote if the block fails, and ends them in any case."""
    try:
        yield made
    except BaseException:
        print(made.report())
        raise
    finally:
        made.close()


@contextmanager
def job(folder: Path, **env: str) -> Iterator[Job]:
    with closing(Service()) as service, reported(Job(folder, service, **env)) as made:
        yield made
