"""The node's end of the supervisor: containers as awaitable starts and futures of their ends, in one event loop.

If the supervisor is lost (it should not be, but kill -9 is always possible), everything it ran is killed by its mark,
every container counts as killed, and the next start brings up another one.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from edl.embedded.node.supervisor import processes
from edl.embedded.node.supervisor.channel import Channel, Message
from edl.embedded.node.supervisor.sandbox import MODES, Mount

_SOURCES = str(Path(__file__).parents[3])
_PROGRAM = "import sys; sys.path.insert(0, {!r}); from edl.embedded.node.supervisor.main import main; main()"
_LAST_WAIT = 15.0


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Specification of one run of a container. `cwd` and the mounts' targets are as the process will see them."""

    id: str
    argv: Sequence[str]
    env: dict[str, str]
    log: str
    cwd: str = "/"
    hostname: str = "localhost"
    mounts: Sequence[Mount] = ()
    scratch: str = ""
    memory_limit: int = 0
    stdin: bool = False
    tty: bool = False
    log_bytes: int = 10 << 20
    log_files: int = 4


class Exit(NamedTuple):
    """How a process ended. Times are seconds since the epoch; `code` is 128 + signal for one that was killed."""

    code: int
    signal: int = 0
    out_of_memory: bool = False
    started: float = 0.0
    finished: float = 0.0
    lost: bool = False
    """Its end was not seen: the supervisor was killed."""


class StartError(Exception):
    """`stage` is `create` when the surroundings could not be made, `start` when the command itself could not be run."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage


class RunningProcess(msgspec.Struct, eq=False):
    id: str
    pid: int
    started: float
    ended: "asyncio.Future[Exit]"


class Runtime:
    """Use as an async context manager. `mode` says how far pods are sandboxed (see supervisor/sandbox.py)."""

    def __init__(self, *, owner: str, modes: Sequence[str] = MODES) -> None:
        self.mode = "none"
        self.refused = ""
        self._owner = owner
        self._modes = modes
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[tuple[Message, list[int]]]] = {}
        self._running: dict[str, RunningProcess] = {}
        self._cleaning: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Runtime":
        await asyncio.to_thread(processes.kill_marked, self._owner)
        await self._connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Whatever still runs is killed, and gone when this returns."""
        self._disconnect()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait, _LAST_WAIT)
        if self._cleaning is not None:
            await self._cleaning
        self._give_up("the node is stopping")

    @property
    def pid(self) -> int:
        """The supervisor's process."""
        assert self._process is not None
        return self._process.pid

    async def run(self, launch: Launch) -> RunningProcess:
        """Start a container; StartError says why it could not be."""
        fields = {name: getattr(launch, name) for name in Launch.__struct_fields__}
        return await self._start({"op": "spawn", **fields, "env": dict(launch.env)}, [])

    async def execute(
        self, container: str, argv: Sequence[str], *, env: dict[str, str], cwd: str, stdio: Sequence[int]
    ) -> RunningProcess:
        """Add a process to a running container. One descriptor is a terminal, three are input, output and error.

        The descriptors are closed here, whatever happens.
        """
        message = {"op": "exec", "id": f"exec-{os.urandom(8).hex()}", "container": container}
        return await self._start({**message, "argv": list(argv), "env": env, "cwd": cwd}, list(stdio))

    async def attach(self, container: str, outputs: Sequence[int]) -> int | None:
        """Copy a container's output to the descriptors (closed here); the one of its input, if it has any, comes
        back.
        """
        message = {"op": "attach", "id": f"attach-{os.urandom(8).hex()}", "container": container}
        _, fds = await self._request(message, list(outputs))
        return fds[0] if fds else None

    def stop(self, name: str, grace: float) -> None:
        """SIGTERM to the group, SIGKILL after `grace` seconds; at once if that is 0. Also shortens a stop under way."""
        self._send({"op": "stop", "id": name, "grace": grace})

    def limit_memory(self, name: str, limit: int) -> None:
        self._send({"op": "limit", "id": name, "memory_limit": limit})

    def close_input(self, name: str) -> None:
        self._send({"op": "close_input", "id": name})

    # The connection

    async def _start(self, message: Message, fds: list[int]) -> RunningProcess:
        try:
            answer, _ = await self._request(message, fds)
        except asyncio.CancelledError:
            self.stop(message["id"], 0)  # nobody would know of it
            raise
        running: RunningProcess = answer["running"]
        return running

    async def _request(self, message: Message, fds: list[int]) -> tuple[Message, list[int]]:
        await self._connected()
        answer: asyncio.Future[tuple[Message, list[int]]] = asyncio.get_running_loop().create_future()
        self._waiting[message["id"]] = answer
        self._send(message, fds)
        try:
            return await answer
        finally:
            self._waiting.pop(message["id"], None)

    def _send(self, message: Message, fds: list[int] | None = None) -> None:
        if self._channel is None:
            return
        try:
            complete = self._channel.send(message, fds)
        except OSError:  # lost; the reader will find out
            return
        if not complete:
            asyncio.get_running_loop().add_writer(self._channel.fileno(), self._flush)

    def _flush(self) -> None:
        if self._channel is None:
            return
        try:
            complete = self._channel.flush()
        except OSError:
            complete = True
        if complete:
            asyncio.get_running_loop().remove_writer(self._channel.fileno())

    async def _connected(self) -> None:
        async with self._starting:
            if self._channel is not None:
                return
            if self._cleaning is not None:
                await self._cleaning
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = await asyncio.to_thread(_start_supervisor, theirs, [self._owner, *self._modes])
            self._channel = Channel(ours)
            ready: asyncio.Future[tuple[Message, list[int]]] = asyncio.get_running_loop().create_future()
            self._waiting[""] = ready
            asyncio.get_running_loop().add_reader(ours.fileno(), self._receive, self._channel)
            answer, _ = await ready
            self.mode, self.refused = answer["mode"], answer["refused"]

    def _receive(self, channel: Channel) -> None:
        try:
            messages = channel.receive()
        except (EOFError, OSError):
            self._lost()
            return
        for message, fds in messages:
            self._handle(message, fds)

    def _handle(self, message: Message, fds: list[int]) -> None:
        event, name = message["event"], message["id"]
        waiting = self._waiting.get(name)
        if event == "exited":
            self._end(name, Exit(*(message[key] for key in Exit._fields[:-1])))
        elif event == "failed":
            if waiting is not None and not waiting.done():
                waiting.set_exception(StartError(message["stage"], message["message"]))
        else:
            if event == "started":
                ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
                self._running[name] = message["running"] = RunningProcess(
                    name, message["pid"], message["started"], ended
                )
            if waiting is not None and not waiting.done():
                waiting.set_result((message, fds))
            else:
                for fd in fds:
                    os.close(fd)

    def _end(self, name: str, outcome: Exit) -> None:
        running = self._running.pop(name, None)
        if running is not None and not running.ended.done():
            running.ended.set_result(outcome)

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(channel.fileno())
            loop.remove_writer(channel.fileno())
            channel.close()

    def _lost(self) -> None:
        self._disconnect()
        self._cleaning = asyncio.get_running_loop().create_task(self._clean_up(), name="clean up after the supervisor")

    async def _clean_up(self) -> None:
        assert self._process is not None
        await asyncio.to_thread(self._process.wait, _LAST_WAIT)
        await asyncio.to_thread(processes.kill_marked, self._owner)
        self._give_up("the supervisor of this node was lost")

    def _give_up(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(StartError("create", why))
        for name, running in list(self._running.items()):
            self._end(name, Exit(137, 9, started=running.started, finished=time.time(), lost=True))


def _start_supervisor(connection: socket.socket, arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM.format(_SOURCES), *arguments]
    return subprocess.Popen(command, stdin=connection.fileno(), cwd="/", env={}, start_new_session=True)
