"""The smallest cluster that an EasyDL job can live in: a real job service, and processes that follow the posted plan.

It stands in for the operator and the nodes: pods are started and ended as the plan says (within `room` workers), failed
ones are replaced, and a worker that uses more memory than it was given is killed for it, as a kernel would.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
from aiohttp import web

from edl.brain.tokens import mint
from edl.operator.job_service import RoleRecord
from tests.runtime.harness import ROOT, Service, reported, until

KEY = b"a key for tests only"
FIELDS = {"worker": "worker", "ps": "parameter_server", "evaluator": "evaluator"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Cluster:
    def __init__(self, folder: Path, env: dict[str, str], *, worker: list[str], room: int = 12) -> None:
        self.folder, self.room, self._worker, self._extra = folder, room, worker, env
        self.service = Service()
        self.plan: dict[str, Any] = {}
        self.generation = 0
        self.deleted = False
        self.pods: dict[str, Pod] = {}  # by slot, the present one
        self.dead: list[dict[str, Any]] = []
        self.usage: dict[str, dict[str, Any]] = {}
        self._attempts: dict[str, int] = {}
        self._others: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._logs = 0
        self._serve_plans()
        self.service.edit(roles={"trainer": RoleRecord(1)}, size=0)
        self._thread = threading.Thread(target=self._reconcile_always, daemon=True)
        self._thread.start()

    # What the job service says of plans and pods.

    def _serve_plans(self) -> None:
        """The calls of an EasyDL job, answered before the real service sees them."""
        real: Callable[[], web.Application] = self.service._service.app

        @web.middleware
        async def plans(request: web.Request, handler: Handler) -> web.StreamResponse:
            call = request.path.rpartition("/")[2]
            if self.deleted:
                return web.json_response({"error": "this token opens no job", "code": "unauthorized"}, status=401)
            answer = {"plan": self._plan, "pods": self._pods, "usage": self._usage, "spec": self._spec}.get(call)
            if answer is None:
                return await handler(request)
            if request.headers.get("Authorization") != "Bearer secret":
                return web.json_response({"error": "no", "code": "unauthorized"}, status=401)
            return web.json_response(answer(json.loads(await request.read() or b"null")))

        def app() -> web.Application:
            made = real()
            made.middlewares.insert(0, plans)
            return made

        self.service.down()
        self.service._service.app = app  # type: ignore[method-assign]
        self.service.up()

    def _plan(self, body: Any) -> dict[str, Any]:
        with self._lock:
            if body is not None and body["spec"] != self.plan:
                self.plan, self.generation = body["spec"], self.generation + 1
            granted = {role: self._wanted(role) for role in FIELDS}
            return {"name": "j" if self.plan else "", "generation": self.generation, "observed": self.generation,
                    "granted": granted, "updates": [], "changed": True}  # fmt: skip

    def _pods(self, _: Any) -> dict[str, Any]:
        with self._lock:
            living = [pod.reported(self.usage.get(pod.name)) for pod in self.pods.values()]
            return {"pods": living + self.dead, "revision": str(len(self.dead)) + str(sorted(self.pods))}

    def _usage(self, body: Any) -> dict[str, Any]:
        self.usage[body["pod"]] = {"cpu": body["cpu"], "memory": body["memory"], "age": 0.0}
        return {}

    @staticmethod
    def _spec(_: Any) -> dict[str, Any]:
        container = {"image": "any", "command": ["python", "train.py"]}
        return {"spec": {"worker": {"template": {"spec": {"containers": [container]}}}}}

    def _wanted(self, role: str) -> int:
        replicas = int(self.plan.get(FIELDS[role], {}).get("replicas", 0))
        return min(replicas, self.room) if role == "worker" else replicas

    # What the operator and the nodes would do.

    def _reconcile_always(self) -> None:
        while not self._over.wait(0.1):
            with self._lock:
                self._reconcile()

    def _reconcile(self) -> None:
        for slot, pod in list(self.pods.items()):
            if pod.process.poll() is not None:
                del self.pods[slot]
                self._bury(pod, pod.process.returncode)
            elif pod.over_its_memory():
                pod.killed = True
                pod.process.kill()
        wanted = {f"{role}-{index}": role for role in ("ps", "worker") for index in range(self._wanted(role))}
        for slot in set(self.pods) - set(wanted):
            if not self.pods[slot].leaving:
                self.pods[slot].leaving = True
                self.pods[slot].process.send_signal(signal.SIGTERM)
        for slot, role in wanted.items():
            resources = self.plan[FIELDS[role]]["resource"]
            old = self.pods.get(slot)
            if old is not None and role == "worker" and old.resources != resources and not old.leaving:
                old.leaving = True
                old.process.send_signal(signal.SIGTERM)
            if old is None and slot not in self._finished():
                self._start(slot, role, resources)
        self._tell()

    def _finished(self) -> set[str]:
        return {f"{pod['role']}-{pod['index']}" for pod in self.dead if pod["state"] == "succeeded"}

    def _bury(self, pod: "Pod", code: int) -> None:
        state = "succeeded" if code == 0 else "failed"
        if code != 143 or not pod.leaving:
            self.dead.append({**pod.reported(None), "state": state, "oom": pod.killed, "exit": {"code": code}})

    def _start(self, slot: str, role: str, resources: dict[str, Any]) -> None:
        attempt = self._attempts[slot] = self._attempts.get(slot, -1) + 1
        name = f"j-{slot}" if attempt == 0 else f"j-{slot}-{attempt}"
        command = (
            [sys.executable, *self._worker] if role == "worker" else [sys.executable, "-m", "edl.cli.main", "pserver"]
        )
        env = {"EDL_ROLE": role, "EDL_INDEX": slot.rpartition("-")[2]}
        self.pods[slot] = Pod(name, role, int(env["EDL_INDEX"]), resources, self._spawn(name, command, env))

    def _tell(self) -> None:
        roles = {
            "trainer": RoleRecord(1),
            "ps": RoleRecord(self._wanted("ps")),
            "worker": RoleRecord(self._wanted("worker")),
        }
        leaving = tuple(pod.name for pod in self.pods.values() if pod.leaving)
        names = frozenset(pod.name for pod in self.pods.values()) | {"j-trainer"}
        running = sum(pod.role == "worker" and not pod.leaving for pod in self.pods.values())
        changes = {"roles": roles, "leaving": leaving, "pods": names, "size": running}
        if any(getattr(self.service.record, field) != value for field, value in changes.items()):
            self.service.edit(**changes)

    def _spawn(self, name: str, command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        self._logs += 1
        with (self.folder / f"{name}.{self._logs}.log").open("wb") as log:
            return subprocess.Popen(
                command, env={**self._env(name), **env}, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder
            )

    def _env(self, pod: str) -> dict[str, str]:
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
            "EDL_USAGE_SECONDS": "0.5",
            "LEDGER": str(self.folder / "ledger"),
            "FOLDER": str(self.folder),
            "OPENBLAS_NUM_THREADS": "1",
            **self._extra,
        }

    # What a test does.

    def start_trainer(self, **env: str) -> None:
        command = [sys.executable, "-m", "edl.cli.main", "trainer"]
        mine = {"EDL_ROLE": "trainer", "EDL_INDEX": "0", "MASTER": "127.0.0.1:0", **env}
        self._others["trainer"] = self._spawn("j-trainer", command, mine)

    def start_brain(self, port: int = 0) -> str:
        """Its address; on the same port again after it was killed."""
        (self.folder / "brain.key").write_bytes(KEY)
        command = [sys.executable, "-m", "edl.cli.main", "brain", "--listen", f"127.0.0.1:{port}", "--key",
                   str(self.folder / "brain.key"), "--database", str(self.folder / "brain.db")]  # fmt: skip
        self._others["brain"] = self._spawn("brain", command, {})
        log = self.folder / f"brain.{self._logs}.log"

        def address() -> str | None:
            lines = [line for line in log.read_text().splitlines() if line.startswith("brain: ")]
            return lines[0].removeprefix("brain: ") if lines else None

        return until(address, "a Brain that listens")

    @staticmethod
    def brain_token(**more: Any) -> str:
        return mint(KEY, "ns/j", **more)

    def kill(self, name: str) -> None:
        """kill -9 of trainer, brain, or the pod of a slot."""
        if name in self._others:
            process = self._others[name]
            process.kill()
            process.wait()
            return
        with self._lock:
            if (pod := self.pods.get(name)) is not None:
                pod.process.kill()

    def ask_trainer_to_go(self) -> None:
        self._others["trainer"].terminate()

    def trainer_code(self, timeout: float = 120.0) -> int:
        return self._others["trainer"].wait(timeout)

    def state(self) -> Any:
        """The trainer's own, as it is in the job service."""
        kept = next(iter(self.service.store.kept.values()), None)
        value = kept.state.values.get("trainer") if kept else None
        return msgspec.json.decode(value.data) if value else {}

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for process in [*self._others.values(), *(pod.process for pod in self.pods.values())]:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.service.close()

    def report(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()[-4000:]}" for log in sorted(self.folder.glob("*.log")))


class Pod:
    def __init__(
        self, name: str, role: str, index: int, resources: dict[str, Any], process: subprocess.Popen[bytes]
    ) -> None:
        self.name, self.role, self.index, self.resources, self.process = name, role, index, resources, process
        self.leaving = self.killed = False
        self.born = time.monotonic()

    def over_its_memory(self) -> bool:
        limit = self.resources.get("memory")
        if not limit or self.role != "worker":
            return False
        try:
            return bool(psutil.Process(self.process.pid).memory_info().rss > limit * 2**20)
        except psutil.NoSuchProcess:
            return False

    def reported(self, usage: dict[str, Any] | None) -> dict[str, Any]:
        return {"name": self.name, "role": self.role, "index": self.index, "state": "running", "leaving": self.leaving,
                "resources": self.resources, "usage": usage, "oom": False, "exit": None}  # fmt: skip


@contextmanager
def cluster(folder: Path, env: dict[str, str], *, worker: list[str], room: int = 12) -> Iterator[Cluster]:
    with reported(Cluster(folder, env, worker=worker, room=room)) as made:
        yield made
