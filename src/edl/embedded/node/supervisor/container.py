"""A container in the supervisor: its process group with pipes or terminal, its log, and the attached clients."""

import os
import pty
from typing import NamedTuple

from edl.embedded.node.supervisor.channel import Message
from edl.embedded.node.supervisor.child import CHUNK, Child
from edl.embedded.node.supervisor.logs import LogWriter
from edl.embedded.node.supervisor.sandbox import Mount
from edl.embedded.node.supervisor.spawn import Command, SandboxSpec


class _Streams(NamedTuple):
    """Standard input, output and error of a child, and our ends of them."""

    child: tuple[int, int, int]
    readers: dict[int, str]
    writer: int | None


class Container(Child):
    def __init__(self, message: Message, *, mode: str) -> None:
        self.memory_limit: int = message.get("memory_limit", 0)
        self.tty: bool = message.get("tty", False)
        self._listeners: dict[int, str] = {}
        self._log = LogWriter(message["log"], max_bytes=message["log_bytes"], keep=message["log_files"])
        streams = _terminal() if self.tty else _pipes(with_input=message.get("stdin", False))
        self.readers, self.writer = streams.readers, streams.writer
        mounts = tuple(Mount(*mount) for mount in message.get("mounts", ()))
        around = SandboxSpec(mode, message.get("hostname", ""), mounts, message.get("scratch", ""))
        command = Command(message["argv"], message["env"], message["cwd"], streams.child, self.tty)
        try:
            super().__init__(message["id"], command, around)
        except OSError:  # no process could be made: it will be tried again and again
            self.close()
            raise

    def read_output(self, fd: int) -> int:
        """Move output to the log and to listeners: how many bytes, 0 when the stream has ended, -1 when there is
        nothing now.
        """
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            return -1
        except OSError:  # a terminal whose other side is closed says EIO
            return 0
        if chunk:
            stream = self.readers[fd]
            self._log.write(stream, chunk)
            for listener in [fd for fd, wanted in self._listeners.items() if wanted == stream]:
                self._copy(listener, chunk)
        return len(chunk)

    def drain(self) -> None:
        """Take what is still in the pipes; something that escaped may hold them open, so do not wait for their end."""
        for fd in self.readers:
            while self.read_output(fd) > 0:
                pass

    def listen(self, fds: dict[int, str]) -> None:
        for fd in fds:
            os.set_blocking(fd, False)
        self._listeners |= fds

    def _copy(self, listener: int, chunk: bytes) -> None:
        """One that does not keep up loses the connection: output must never wait for an onlooker."""
        try:
            complete = os.write(listener, chunk) == len(chunk)
        except OSError:
            complete = False
        if not complete:
            del self._listeners[listener]
            os.close(listener)

    def close_input(self) -> None:
        if self.writer is not None and not self.tty:
            os.close(self.writer)
            self.writer = None

    def close(self) -> None:
        self.close_input()
        for fd in (*self.readers, *self._listeners):
            os.close(fd)
        self._log.close()


def _pipes(*, with_input: bool) -> _Streams:
    input_reader, input_writer = os.pipe() if with_input else (os.open(os.devnull, os.O_RDONLY), None)
    out_reader, out_writer = os.pipe()
    error_reader, error_writer = os.pipe()
    for fd in (out_reader, error_reader):
        os.set_blocking(fd, False)
    readers = {out_reader: "stdout", error_reader: "stderr"}
    return _Streams((input_reader, out_writer, error_writer), readers, input_writer)


def _terminal() -> _Streams:
    ours, child = pty.openpty()
    os.set_blocking(ours, False)
    return _Streams((child, child, child), {ours: "stdout"}, ours)
