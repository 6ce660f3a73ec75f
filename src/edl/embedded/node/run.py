"""One run of a container, as its node holds it."""

import asyncio
from dataclasses import dataclass

from edl.embedded.node.health import Health
from edl.embedded.node.pod import Container
from edl.embedded.node.probes import Subject, null_streams
from edl.embedded.node.runtime import Exit, Launch, Running, Runtime, StartError


@dataclass(slots=True)
class Run:
    """What was started, its probes, and until when it may take to stop."""

    running: Running
    launch: Launch
    health: Health | None = None
    stop_by: float | None = None

    def leave_alone(self) -> None:
        """No more probes."""
        if self.health is not None:
            self.health.stop()

    def subject(self, container: Container, address: str, runtime: Runtime) -> Subject:
        """The container as probes and hooks look at it."""

        async def execute(command: tuple[str, ...]) -> Exit:
            return await self._execute(runtime, command)

        return Subject(container, address, execute)

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
