"""A node's own HTTPS endpoint, at the kubelet's paths: logs, exec, attach and port-forward, for the API server alone.

Who presents a certificate of the cluster's authority is served, nobody else gets past the TLS handshake.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from aiohttp import web

from edl.api.kubernetes import timestamp
from edl.embedded.node import logs
from edl.embedded.node.network.remote_command import Session
from edl.embedded.node.pod.worker import PodWorker
from edl.embedded.node.runtime import Runtime, StartError
from edl.embedded.streaming.streams import RemoteCommand, serve_port_forward
from edl.serving.http import serve_app


class LogFile(NamedTuple):
    """Where the log of one run of a container is, and whether that run still goes on."""

    path: Path
    worker: PodWorker | None
    run: int


class Pods(Protocol):
    """What the endpoint asks of its node."""

    def worker(self, namespace: str, name: str) -> PodWorker | None: ...

    def log_file(self, namespace: str, name: str, container: str, *, previous: bool) -> LogFile | str: ...


class Endpoint:
    def __init__(self, pods: Pods, runtime: Runtime) -> None:
        self._pods = pods
        self._runtime = runtime

    @asynccontextmanager
    async def serving(self, address: str, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
        """Serve at a port of the system's choice; gives the port."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        app.router.add_route("*", "/exec/{namespace}/{pod}/{container}", self._exec)
        app.router.add_route("*", "/attach/{namespace}/{pod}/{container}", self._attach)
        app.router.add_route("*", "/portForward/{namespace}/{pod}", self._port_forward)
        runner = await serve_app(app, address, 0, tls=tls, shutdown_timeout=0.5)
        try:
            yield int(runner.addresses[0][1])
        finally:
            await runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        names, query = request.match_info, request.query
        file = self._pods.log_file(
            names["namespace"], names["pod"], names["container"], previous=_flag(query.get("previous"))
        )
        if isinstance(file, str):
            return web.Response(status=400, text=file)
        try:
            options = _log_options(query)
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        follow = (lambda: _still_runs(file)) if _flag(query.get("follow")) else None
        with contextlib.suppress(ConnectionError):
            async for piece in logs.read(file.path, options, follow=follow):
                if piece:
                    await response.write(piece)
            await response.write_eof()
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        worker, query = self._worker(request), request.query
        container = request.match_info["container"]
        run = worker.running(container) if worker is not None else None
        if run is None:
            return web.Response(status=400, text=f'container "{container}" is not running')
        command = await RemoteCommand.accept(request)
        tty = _flag(query.get("tty"))
        async with Session(command, tty=tty, wants_input=_flag(query.get("input"))) as session:
            env = {**run.launch.env, "TERM": "xterm"} if tty else dict(run.launch.env)
            try:
                process = await self._runtime.execute(
                    run.running.id,
                    query.getall("command", []),
                    env=env,
                    cwd=run.launch.cwd,
                    stdio=session.child_streams(),
                )
            except StartError as error:
                await command.finish(failure=str(error))
            else:
                await session.carry(process.ended, cancel=lambda: self._runtime.stop(process.id, 2))
        return command.socket

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        worker, container = self._worker(request), request.match_info["container"]
        run = worker.running(container) if worker is not None else None
        if run is None:
            return web.Response(status=400, text=f'container "{container}" is not running')
        command = await RemoteCommand.accept(request)
        wants_input = _flag(request.query.get("input"))
        async with Session(command, tty=run.launch.tty, wants_input=wants_input) as session:
            try:
                input_fd = await self._runtime.attach(run.running.id, session.listeners())
            except StartError as error:
                await command.finish(failure=str(error))
                return command.socket
            session.use_input(input_fd, on_close=lambda: self._runtime.close_input(run.running.id))
            await session.carry(run.running.ended, cancel=lambda: None)
        return command.socket

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        worker = self._worker(request)
        if worker is None:
            return web.Response(status=404, text="pod not found")

        async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            address = await asyncio.to_thread(worker.listening_address, port)
            return await asyncio.open_connection(address, port)

        return await serve_port_forward(request, connect)

    def _worker(self, request: web.Request) -> PodWorker | None:
        return self._pods.worker(request.match_info["namespace"], request.match_info["pod"])


def _still_runs(file: LogFile) -> bool:
    worker = file.worker
    if worker is None or worker.gone:
        return False
    record = worker.records.get(file.path.parent.name)
    return record is not None and record.active and record.restarts == file.run


def _flag(text: str | None) -> bool:
    return text in ("1", "true", "True")


def _log_options(query: Mapping[str, str]) -> logs.LogOptions:
    """ValueError if a number or a time is none."""
    since: float | None = None
    if query.get("sinceSeconds"):
        since = time.time() - float(query["sinceSeconds"])
    elif query.get("sinceTime"):
        since = timestamp.seconds(query["sinceTime"])
    return logs.LogOptions(
        tail_lines=int(query["tailLines"]) if query.get("tailLines") else None,
        limit_bytes=int(query["limitBytes"]) if query.get("limitBytes") else None,
        since=since,
        timestamps=_flag(query.get("timestamps")),
    )
