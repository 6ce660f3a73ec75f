"""Probes and hooks: one attempt at an action, and the schedule that turns attempts into started, ready and alive.

Between attempts a probe is one timer; a task exists only while an attempt runs.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable
from typing import NamedTuple, Protocol

import aiohttp

from edl.embedded.node.pod.types import Action, Container, NetworkAction, Probe
from edl.embedded.node.runtime import Exit


class ProbeTarget(NamedTuple):
    """The container that is probed: its address, and how to run a command in it."""

    container: Container
    address: str
    execute: "Execute"


class Execute(Protocol):
    async def __call__(self, command: tuple[str, ...]) -> Exit: ...


class ProbeRunner:
    """Carries out single actions. One per node process: it shares a connection pool."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._any_certificate = ssl.create_default_context()
        self._any_certificate.check_hostname = False
        self._any_certificate.verify_mode = ssl.CERT_NONE

    async def perform(self, action: Action, target: ProbeTarget, timeout: float) -> str:
        """Nothing if it went well, else what was wrong."""
        try:
            async with asyncio.timeout(timeout):
                return await self._attempt(action, target)
        except TimeoutError:
            return f"timed out after {timeout:g}s"
        except (OSError, aiohttp.ClientError, ValueError) as error:
            return str(error) or type(error).__name__

    async def _attempt(self, action: Action, target: ProbeTarget) -> str:
        if action.exec is not None:
            outcome = await target.execute(action.exec.command)
            return "" if outcome.code == 0 else f"command exited with code {outcome.code}"
        if action.http_get is not None:
            return await self._http(action.http_get, target)
        network = action.tcp_socket or action.grpc  # no gRPC here: that it listens must do
        if network is not None:
            address = network.host or target.address
            _, writer = await asyncio.open_connection(address, port_number(network.port, target.container))
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        elif action.sleep is not None:
            await asyncio.sleep(action.sleep.seconds)
        return ""

    async def _http(self, action: NetworkAction, target: ProbeTarget) -> str:
        port = port_number(action.port, target.container)
        path = action.path if action.path.startswith("/") else f"/{action.path}"
        url = f"{action.scheme.lower()}://{action.host or target.address}:{port}{path}"
        headers = {"User-Agent": "kube-probe/edl", **{header.name: header.value for header in action.http_headers}}
        async with self._session.get(url, headers=headers, ssl=self._any_certificate, allow_redirects=False) as answer:
            return "" if 200 <= answer.status < 400 else f"HTTP probe failed with statuscode: {answer.status}"


def port_number(port: int | str, container: Container) -> int:
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for named in container.ports:
        if named.name == port:
            return named.container_port
    raise ValueError(f"couldn't find port: {port} in container {container.name}")


class Prober:
    """One probe of one run of a container. `report(passed, why)` is called when the result changes."""

    def __init__(
        self,
        probe: Probe,
        target: ProbeTarget,
        runner: ProbeRunner,
        report: Callable[[bool, str], None],
        *,
        initially: bool | None,
    ) -> None:
        self._probe = probe
        self._target = target
        self._runner = runner
        self._report = report
        self._result = initially
        self._streak, self._last = 0, ""
        self._task: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(probe.initial_delay_seconds, self._begin)

    def stop(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._once())

    async def _once(self) -> None:
        why = await self._runner.perform(self._probe, self._target, self._probe.timeout_seconds)
        passed = not why
        self._streak = self._streak + 1 if passed == (not self._last) and self._streak else 1
        self._last = why
        needed = self._probe.success_threshold if passed else self._probe.failure_threshold
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.05, self._probe.period_seconds), self._begin)
        if self._streak >= needed and self._result is not passed:
            self._result = passed
            self._report(passed, why)


def null_streams() -> list[int]:
    return [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
