"""Pods whose workers are real processes, forked from one warm process; their agents are threads of the test.

What an agent does is the product's own (`EdlHandler`, `InPlace`, `WorkerHub`), but for torchrun's loop around it, which
is a few lines here: so a test needs no import of torch for every pod. `test_in_place.py` has the same with torchrun.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

from edl.runtime.torch.checkpoint_memory import MEMORY
from edl.runtime.torch.handler import EdlHandler
from edl.runtime.torch.lines import LINK
from edl.runtime.torch.plugin import Settings, connect
from edl.runtime.torch.warm_workers import OFFER, Zygote
from tests.runtime.harness import reported
from tests.tier_frameworks.torchrun.aimed import FOLDER
from tests.tier_frameworks.torchrun.group import ROOT, Leader, until
from tests.tier_frameworks.torchrun.ledger import Ledger

SCRIPT = ROOT / "examples" / "pytorch" / "elastic.py"


class Pod:
    def __init__(
        self, name: str, pods: "Pods", words: list[str], *, workers: int, restarts: int, env: Mapping[str, str]
    ) -> None:
        self.name, self._pods, self._words, self._count, self._restarts = name, pods, words, workers, restarts
        self._env = {**pods.env(name), **env}
        options = SimpleNamespace(
            run_id="u-1", endpoint="", min_nodes=pods.minimum, max_nodes=4, local_addr=None, config={}
        )
        settings = Settings(window=0.5, stop=pods.stop, silence=pods.silence)
        self.connection = connect(options, settings, self._env)
        self.handler = EdlHandler(self.connection, settings, run="u-1", address="127.0.0.1")
        self.workers: list[subprocess.Popen[bytes]] = []
        self.code: int | None = None
        self._dead = False
        self._thread = threading.Thread(target=self._run, name=f"pod {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(Exception, SystemExit):  # an agent that may not join exits
            while self.code is None and not self._dead:
                self._start(self.handler.next_rendezvous())
                self.code = self._monitor()
        if self.code is None:
            self.code = 0 if self.connection.state.over else 1

    def _start(self, info: Any) -> None:
        self.handler.hub.expected = self._count
        self.handler.in_place.begin()
        for local in range(self._count):
            env = {**self._env, **self._place(info, local), **self._pods.offer}
            with (self._pods.folder / f"{self.name}.log").open("ab") as log:
                command = [sys.executable, *self._pods.zygote.through(["-u", str(self._pods.script), *self._words])]
                self.workers.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT))

    def _place(self, info: Any, local: int) -> dict[str, str]:
        """What torchrun tells a worker."""
        return {
            "LOCAL_RANK": str(local),
            "RANK": str(info.rank * self._count + local),
            "WORLD_SIZE": str(info.world_size * self._count),
            "LOCAL_WORLD_SIZE": str(self._count),
            "MASTER_ADDR": info.bootstrap_store_info.master_addr,
            "MASTER_PORT": str(info.bootstrap_store_info.master_port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            LINK: self.handler.hub.link,
            MEMORY: self.handler.memory.link,
        }

    def _monitor(self) -> int | None:
        """As torchrun's loop: the code of the pod, None if its workers start anew."""
        while not self._dead:
            time.sleep(0.05)
            codes = [worker.poll() for worker in self.workers]
            if all(code == 0 for code in codes):
                self.handler.finish(30.0)
                return 0
            if any(codes):
                own = self.handler.at_fault(hard=any(code and code < 0 for code in codes))
                if own and self._restarts == 0:
                    self._stop()
                    self.handler.shutdown()
                    return 1
                self._restarts -= own
                self._stop()
                return None
            if self.handler.in_place.over or self.handler.num_nodes_waiting():
                self.handler.save()
                self._stop()
                return 0 if self.handler.in_place.over else None
        return None

    def _stop(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.workers = []

    def pids(self) -> list[int]:
        """Of the worker processes themselves."""
        return [worker.pid for worker in sorted(self.handler.hub.workers, key=lambda worker: worker.local_rank)]

    def kill(self) -> None:
        """All that runs in the pod at once."""
        self._dead = True
        self.handler.memory.close()
        self.handler.in_place.suspend()
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.connection.close()
        self._stop()

    def terminate(self) -> None:
        """As the agent does on SIGTERM."""
        self.handler.leave("it was asked to stop")
        self.kill()

    def close(self) -> None:
        self._dead = True
        self.handler.in_place.suspend()
        self.connection.close()
        self._stop()
        self._thread.join(10.0)
        self.handler.in_place.close()
        self.handler.memory.close()


class Pods(Ledger):
    """One job: its leader, its pods, and the ledger of its training."""

    def __init__(
        self,
        folder: Path,
        zygote: Zygote,
        *,
        minimum: int = 1,
        stop: float = 20.0,
        silence: float = 60.0,
        script: Path = SCRIPT,
        defaults: Mapping[str, Any] = MappingProxyType({"epochs": 100_000}),
    ) -> None:
        super().__init__(folder / "trace")
        self.trace.mkdir()
        self.folder, self.zygote, self.script = folder, zygote, script
        self.minimum, self.stop, self.silence, self.defaults = minimum, stop, silence, defaults
        self.leader = Leader()
        self.pods: dict[str, Pod] = {}
        with zygote.offered():
            self.offer = {OFFER: os.environ[OFFER]}

    def env(self, pod: str) -> dict[str, str]:
        return {**self.leader.environment(pod), FOLDER: str(self.folder / "aim")}

    def start(
        self, *names: str, workers: int = 1, restarts: int = 0, env: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        """Options are the script's."""
        options = {**self.defaults, "pause": 0.03, "trace": self.trace, **options}
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        self.leader.edit(target=len(self.pods) + len(names))
        for name in names:
            self.pods[name] = Pod(name, self, words, workers=workers, restarts=restarts, env=env or {})

    def kill(self, name: str) -> None:
        self.pods.pop(name).kill()

    def terminate(self, name: str) -> None:
        self.pods.pop(name).terminate()

    def code(self, name: str) -> int:
        until(lambda: self.pods[name].code is not None, f"end of {name}")
        code = self.pods[name].code
        assert code is not None
        return code

    def code_now(self, name: str) -> int | None:
        return self.pods[name].code

    def close(self) -> None:
        for pod in self.pods.values():
            pod.close()
        self.leader.close()

    def report(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()[-6000:]}" for log in sorted(self.folder.glob("*.log")))


@contextlib.contextmanager
def job(folder: Path, zygote: Zygote, **settings: Any) -> Iterator[Pods]:
    with reported(Pods(folder, zygote, **settings)) as made:
        yield made
