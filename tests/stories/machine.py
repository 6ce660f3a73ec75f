"""A machine whose services are processes of their own, each started again when it ends, as by an init system.

So that a story can kill any of them with -9. `edl up` as a whole is one of the services that it can have.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil

from edl.kube.auth.kubeconfig import from_kubeconfig
from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import HttpTransport
from edl.operator.resources import NODES
from tests.stories.backend import caller

CHECK = 0.1
PATIENCE = 90.0


class Machine:
    """`root` holds the home of the cluster, and a log of every service."""

    def __init__(self, root: Path) -> None:
        self._root, self.home = root, root / "home"
        self.kubeconfig = self.home / "kubeconfig"
        self._commands: dict[str, list[str]] = {}
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, name: str, *words: str) -> None:
        """`edl WORDS` under this name, from now on."""
        self._commands[name] = [sys.executable, "-m", "edl.cli.main", *words]
        await self._spawn(name)

    async def _spawn(self, name: str) -> None:
        with (self._root / f"{name}.log").open("ab") as log:
            self._running[name] = await asyncio.create_subprocess_exec(
                *self._commands[name], stdout=log, stderr=log, env={**caller(), "EDL_HOME": str(self.home)}
            )

    async def tend(self) -> None:
        """For ever: starts again what has ended."""
        while True:
            await asyncio.sleep(CHECK)
            for name, process in list(self._running.items()):
                if process.returncode is not None:
                    await self._spawn(name)

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def kill(self, name: str) -> None:
        self._running[name].kill()

    def kill_tree(self, name: str) -> None:
        """Everything below it at once: its supervisor, and all pods."""
        top = psutil.Process(self._running[name].pid)
        for process in [top, *top.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    async def stop(self) -> None:
        for process in reversed(self._running.values()):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await process.wait()

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self._root.glob("*.log")))


async def reach(machine: Machine, nodes: int) -> Client:
    """A client, when so many nodes are ready."""
    async with asyncio.timeout(PATIENCE):
        while not machine.kubeconfig.exists():
            await asyncio.sleep(CHECK)
        client = Client(
            HttpTransport(from_kubeconfig([machine.kubeconfig])), rate_limiter=RateLimiter(qps=1000, burst=1000)
        )
        while await _ready(client) < nodes:
            await asyncio.sleep(CHECK)
    return client


async def _ready(client: Client) -> int:
    try:
        found = (await client.list(NODES)).items
    except KubeError:
        return 0
    conditions = [node.get("status", {}).get("conditions") or () for node in found]
    return sum(any((one["type"], one["status"]) == ("Ready", "True") for one in several) for several in conditions)


@contextlib.asynccontextmanager
async def machine(root: Path, services: Sequence[tuple[str, Sequence[str]]], *, nodes: int) -> AsyncIterator[Machine]:
    """All services running, so many nodes ready; nothing is left of them afterwards."""
    made = Machine(root)
    tending = asyncio.create_task(made.tend())
    try:
        for name, words in services:
            await made.start(name, *words)
            if name == "api":
                await (await reach(made, 0)).close()
        await (await reach(made, nodes)).close()
        yield made
    except BaseException:
        print(made.logs())
        raise
    finally:
        tending.cancel()
        await asyncio.gather(tending, return_exceptions=True)
        await made.stop()
