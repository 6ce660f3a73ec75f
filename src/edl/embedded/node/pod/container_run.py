"""One run of a container: the process, its probes, and its deadline to stop."""

import asyncio

import msgspec

from edl.embedded.node.pod.types import Container
from edl.embedded.node.probes.health import Health
from edl.embedded.node.probes.prober import ProbeTarget, null_streams
from edl.embedded.node.runtime import Exit, Launch, RunningProcess, Runtime, StartError


class ContainerRun(msgspec.Struct):
    """`stop_by`: when the process is killed if it has not stopped; None while nobody stops it."""

    running: RunningProcess
    launch: Launch
    health: Health | None = None
    stop_by: float | None = None

    def stop_probes(self) -> None:
        """No more probes."""
        if self.health is not None:
            self.health.stop()

    def probe_target(self, container: Container, address: str, runtime: Runtime) -> ProbeTarget:
        """The container as a target of probes and hooks."""

        async def execute(command: tuple[str, ...]) -> Exit:
            return await self._execute(runtime, command)

        return ProbeTarget(container, address, execute)

    async def _execute(self, runtime: Runtime, command: tuple[str, ...]) -> Exit:
        launch = self.launch
        try:
            process = await runtime.execute(
                self.running.id, command, env=dict(launch.env), cwd=launch.cwd, stdio=null_streams()
            )
        except StartError as error:
            raise OSError(str(error)) from error
        try:
            return await asyncio.shield(process.ended)
        except asyncio.CancelledError:
            runtime.stop(process.id, 0)
            raise
