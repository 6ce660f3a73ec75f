"""A process that the supervisor started, from fork to the end of its group."""

import contextlib
import os
import time
from typing import Any

from edl.embedded.node.supervisor.channel import Message
from edl.embedded.node.supervisor.spawn import Command, Failure, SandboxSpec, spawn

CHUNK = 1 << 16


class Child:
    """`status` is what waitpid said once the leader has ended; the group may live on for the rest of a grace period."""

    def __init__(self, name: str, command: Command, around: SandboxSpec) -> None:
        self.id = name
        self.stopping = False
        self.out_of_memory = False
        self.status: int | None = None
        self.started = self.finished = 0.0
        self.failure: Failure | None = None
        self._report = b""
        try:
            self.pid, self.report = spawn(command, around)
        finally:
            for fd in set(command.stdio):
                os.close(fd)

    def read_report(self) -> bool:
        """Take in what the child says of its start; True when it has said everything: close it then."""
        data = os.read(self.report, CHUNK)
        self._report += data
        if data:
            return False
        self.started = time.time()
        self.failure = Failure.decode(self._report) if self._report else None
        return True

    def signal(self, number: int) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)  # before it leads a group there is no group to signal
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def group_lives(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def outcome(self) -> dict[str, Any]:
        code = os.waitstatus_to_exitcode(self.status or 0)
        return {
            "id": self.id,
            "code": code if code >= 0 else 128 - code,
            "signal": -code if code < 0 else 0,
            "out_of_memory": self.out_of_memory,
            "started": self.started,
            "finished": self.finished,
        }


class Execution(Child):
    """A process that was added to a running container (`kubectl exec`, a probe, a hook). Its streams belong to
    whoever asked.
    """

    def __init__(self, message: Message, fds: list[int], *, container: Child, mode: str) -> None:
        self.container = container
        terminal = len(fds) == 1
        stdio = (fds[0], fds[0], fds[0]) if terminal else (fds[0], fds[1], fds[2])
        command = Command(message["argv"], message["env"], message["cwd"], stdio, terminal)
        super().__init__(message["id"], command, SandboxSpec(mode, join=container.pid))
