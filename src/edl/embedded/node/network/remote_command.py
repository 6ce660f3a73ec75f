"""Carries exec and attach between a WebSocket and the descriptors of a process, with or without a terminal."""

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable
from types import TracebackType
from typing import Any

from edl.embedded.node.runtime import Exit
from edl.embedded.streaming.streams import STDERR, STDOUT, Input, RemoteCommand, Resize

_CHUNK = 1 << 15
_LAST_OUTPUT_SECONDS = 1.0


class Session:
    """Owns our ends of the streams. `child_streams` for exec, `listeners` and `use_input` for attach, then `carry`."""

    def __init__(self, command: RemoteCommand, *, tty: bool, wants_input: bool) -> None:
        self._command = command
        self._tty = tty
        self._wants_input = wants_input
        self._outputs: list[tuple[int, int]] = []
        self._input: int | None = None
        self._terminal: int | None = None
        self._on_input_closed: Callable[[], None] = lambda: None

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_input()
        for fd, _ in self._outputs:
            os.close(fd)
        await self._command.socket.close()

    def child_streams(self) -> list[int]:
        """What the process gets: a terminal, or three pipes (an input that nobody writes is empty)."""
        if self._tty:
            ours, child = pty.openpty()
            self._outputs = [(ours, STDOUT)]
            self._input = self._terminal = os.dup(ours)
            return [child]
        if self._wants_input:
            input_reader, self._input = os.pipe()
        else:
            input_reader = os.open(os.devnull, os.O_RDONLY)
        return [input_reader, *self.listeners()]

    def listeners(self) -> list[int]:
        """Where output is to be written: standard output and error."""
        readers, writers = zip(*(os.pipe() for _ in range(2)), strict=True)
        self._outputs = list(zip(readers, (STDOUT, STDERR), strict=True))
        return list(writers)

    def use_input(self, fd: int | None, on_close: Callable[[], None]) -> None:
        self._input, self._on_input_closed = fd, on_close
        if self._tty:
            self._terminal = fd

    async def carry(self, ended: "asyncio.Future[Exit]", *, cancel: Callable[[], None]) -> None:
        """Until the process ends (its last output is sent, then how it ended) or the client goes (`cancel`)."""
        outputs = [asyncio.create_task(self._send(fd, channel)) for fd, channel in self._outputs]
        client = asyncio.create_task(self._receive())
        try:
            either: set[asyncio.Future[Any]] = {client, ended}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                cancel()
                return
            # Something in the background may keep a stream open: do not wait for its end for long.
            await asyncio.wait(outputs, timeout=_LAST_OUTPUT_SECONDS)
            await self._command.finish(ended.result().code)
        finally:
            for task in (client, *outputs):
                task.cancel()
            await asyncio.gather(client, *outputs, return_exceptions=True)

    async def _send(self, fd: int, channel: int) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(fd), "rb", 0))
        try:
            while data := await reader.read(_CHUNK):
                await self._command.write(channel, data)
        except OSError:  # a terminal says EIO when its last user is gone
            pass
        finally:
            transport.close()

    async def _receive(self) -> None:
        """Input and sizes, until the client is gone."""
        async for event in self._command:
            if isinstance(event, Resize):
                self._resize(event)
            elif isinstance(event, Input) and event.data is None:
                self._close_input()
            elif isinstance(event, Input) and event.data and self._input is not None:
                with contextlib.suppress(OSError):
                    await _write_all(self._input, event.data)

    def _resize(self, size: Resize) -> None:
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))

    def _close_input(self) -> None:
        if self._input is not None:
            os.close(self._input)
            self._input = self._terminal = None
            self._on_input_closed()


async def _write_all(fd: int, data: bytes) -> None:
    """A process that does not read its input makes its client wait, and nobody else."""
    os.set_blocking(fd, False)
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            writable = asyncio.Event()
            loop.add_writer(fd, writable.set)
            try:
                await writable.wait()
            finally:
                loop.remove_writer(fd)
