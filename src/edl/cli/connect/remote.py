"""Connects this process's terminal, or its pipes, with a command in a pod."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from edl.cli.output.terminal import harmless
from edl.kube.rest.remote_command import STDERR, CommandOptions, RemoteCommand, remote_command
from edl.kube.rest.transport import HttpTransport

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

CHUNK = 32 * 1024


async def run_remotely(
    client: "Client", namespace: str, pod: str, command: Sequence[str], options: CommandOptions
) -> int:
    """The command's exit code; why it could not run is said on stderr."""
    transport = client.transport
    assert isinstance(transport, HttpTransport)  # as every command's is
    async with remote_command(transport, namespace, pod, command, options) as remote:
        with _raw_terminal() if options.tty else contextlib.nullcontext():
            async with _sized(remote) if options.tty else contextlib.nullcontext():
                await _talk(remote, stdin=options.stdin)
    if remote.failure:
        print(f"edl: {harmless(remote.failure)}", file=sys.stderr)
    return remote.exit_code or 0


async def _talk(remote: RemoteCommand, *, stdin: bool) -> None:
    sender = asyncio.create_task(_send_input(remote)) if stdin else None
    try:
        async for channel, data in remote:
            stream = sys.stderr.buffer if channel == STDERR else sys.stdout.buffer
            stream.write(data)
            stream.flush()
    finally:
        if sender is not None:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)


async def _send_input(remote: RemoteCommand) -> None:
    """What comes from a terminal or a pipe is read when it is there; a plain file is read as it is."""
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    while True:
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(descriptor, _tell, ready)
        except OSError:  # a plain file cannot be waited for, and need not be
            ready.set_result(None)
        try:
            await ready
        finally:
            with contextlib.suppress(OSError):
                loop.remove_reader(descriptor)
        data = os.read(descriptor, CHUNK)
        if not data:
            await remote.end_input()
            return
        await remote.write(data)


def _tell(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Keys go to the other side as they are pressed, Ctrl-C too. Put back however it ends."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed meanwhile counts
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@asynccontextmanager
async def _sized(remote: RemoteCommand) -> AsyncIterator[None]:
    """The other side knows how large the terminal is, also when that changes."""
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def tell() -> None:
        size = shutil.get_terminal_size()
        task = loop.create_task(remote.resize(size.columns, size.lines))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    tell()
    loop.add_signal_handler(signal.SIGWINCH, tell)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
