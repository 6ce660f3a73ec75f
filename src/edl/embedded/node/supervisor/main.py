"""The supervisor: starts, stops, execs and attaches on request, reports starts and ends, kills everything when it
ends.

Requests and events are dictionaries with an `op` or an `event` and an `id`; `edl.embedded.node.runtime` is the other
end.
"""

import contextlib
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator

from edl.embedded.node.supervisor import processes, sandbox
from edl.embedded.node.supervisor.channel import Channel, Message
from edl.embedded.node.supervisor.child import Child, Execution
from edl.embedded.node.supervisor.container import Container
from edl.embedded.node.supervisor.loop import Loop

_SWEEP_SECONDS = 0.1
_MEMORY_SECONDS = 1.0
_DRAIN_SECONDS = 0.5
_SHUTDOWN_SECONDS = 10.0


class Supervisor:
    def __init__(self, channel: Channel, *, owner: str, mode: str) -> None:
        self._channel = channel
        self._owner = owner
        self._mode = mode
        self._loop = Loop()
        self._containers: dict[str, Container] = {}
        self._executions: dict[str, Execution] = {}
        self._by_pid: dict[int, Child] = {}
        self._ended_sessions: set[int] = set()
        self._sweeping = self._weighing = False

    def run(self) -> None:
        """Serve until the other end is gone, then leave nothing behind."""
        self._loop.on_signal(signal.SIGCHLD, self._reap)
        self._loop.on_readable(self._channel.fileno(), self._serve)
        try:
            self._loop.run()
        finally:
            _kill_everything_below(os.getpid())

    def _tell(self, event: str, message: Message, fds: list[int] | None = None) -> None:
        if not self._channel.send({"event": event, **message}, fds):
            self._loop.on_writable(self._channel.fileno(), self._flush)

    def _flush(self) -> None:
        if not self._channel.flush():
            self._loop.on_writable(self._channel.fileno(), self._flush)

    def _serve(self) -> None:
        operations = {
            "spawn": self._spawn,
            "stop": self._stop,
            "limit": self._limit,
            "exec": self._exec,
            "attach": self._attach,
            "close_input": self._close_input,
        }
        for message, fds in self._channel.receive():
            try:
                operations[message["op"]](message, fds)
            except (OSError, LookupError) as error:
                for fd in fds:
                    _close_quietly(fd)
                self._tell("failed", {"id": message["id"], "stage": "create", "message": str(error)})

    # Requests

    def _spawn(self, message: Message, fds: list[int]) -> None:
        message["env"][processes.MARK] = f"{self._owner}/{message['id']}"
        container = Container(message, mode=self._mode)
        self._containers[container.id] = container
        for fd in container.readers:
            self._loop.on_readable(fd, lambda fd=fd: self._read_output(container, fd))  # type: ignore[misc]
        self._watch(container)
        if container.memory_limit:
            self._start_weighing()

    def _exec(self, message: Message, fds: list[int]) -> None:
        container = self._running(message["container"])
        message["env"][processes.MARK] = f"{self._owner}/{container.id}"
        execution = Execution(message, fds, container=container, mode=self._mode)
        self._executions[execution.id] = execution
        self._watch(execution)

    def _attach(self, message: Message, fds: list[int]) -> None:
        """Output goes to the descriptors given; one that leads to the container's input goes back."""
        container = self._running(message["container"])
        container.listen(dict(zip(fds, ("stdout", "stderr"), strict=False)))
        writer = [os.dup(container.writer)] if container.writer is not None else []
        self._tell("attached", {"id": message["id"]}, writer)

    def _close_input(self, message: Message, fds: list[int]) -> None:
        self._running(message["id"]).close_input()

    def _running(self, name: str) -> Container:
        container = self._containers.get(name)
        if container is None or container.status is not None or container.report >= 0:
            raise LookupError("the container is not running")
        return container

    def _stop(self, message: Message, fds: list[int]) -> None:
        """SIGTERM to the whole group, SIGKILL after the grace; no grace, no SIGTERM."""
        target = self._containers.get(message["id"]) or self._executions.get(message["id"])
        if target is None:
            return
        if message["grace"] > 0:
            target.stopping = True
            target.signal(signal.SIGTERM)
            self._loop.later(message["grace"], lambda: self._kill(target))
        else:
            self._kill(target)

    def _limit(self, message: Message, fds: list[int]) -> None:
        container = self._containers.get(message["id"])
        if container is not None:
            container.memory_limit = message["memory_limit"]
            self._start_weighing()

    # Ends of processes

    def _watch(self, child: Child) -> None:
        self._by_pid[child.pid] = child
        self._loop.on_readable(child.report, lambda: self._read_report(child))

    def _read_report(self, child: Child) -> None:
        if child.read_report():
            self._loop.forget(child.report)
            os.close(child.report)
            child.report = -1
            if child.failure is None:
                self._tell("started", {"id": child.id, "pid": child.pid, "started": child.started})

    def _read_output(self, container: Container, fd: int) -> None:
        if container.read_output(fd) == 0:
            self._loop.forget(fd)
            os.close(fd)
            del container.readers[fd]
            self._maybe_finish(container)

    def _reap(self) -> None:
        for pid, status in _ended_children():
            child = self._by_pid.pop(pid, None)
            if child is not None:
                self._ended(child, status)
        for container in [one for one in self._containers.values() if one.stopping and one.status is not None]:
            self._maybe_finish(container)

    def _ended(self, child: Child, status: int) -> None:
        while child.report >= 0:  # the process is gone, so the end of its report is there: this does not block
            self._read_report(child)
        child.status = status
        child.finished = time.time()
        if isinstance(child, Container):
            if not child.stopping:
                self._kill(child)  # as when process 1 of a container ends
            self._maybe_finish(child)
        else:
            del self._executions[child.id]
            self._tell_end(child)

    def _kill(self, target: Child) -> None:
        target.stopping = False
        if target.status is None or target.group_lives():
            target.signal(signal.SIGKILL)
        if isinstance(target, Container):
            self._start_sweeping()
            self._maybe_finish(target)

    def _maybe_finish(self, container: Container) -> None:
        """Report the end once the group is gone and its output is read; what escaped may not delay that for long."""
        if container.status is None or container.id not in self._containers:
            return
        if container.stopping and container.group_lives():
            return
        waited = time.time() - container.finished
        if container.readers and waited < _DRAIN_SECONDS:
            self._loop.later(_DRAIN_SECONDS - waited + 0.01, lambda: self._maybe_finish(container))
            return
        self._finish(container)

    def _finish(self, container: Container) -> None:
        for fd in container.readers:
            self._loop.forget(fd)
        container.drain()
        container.close()
        del self._containers[container.id]
        self._ended_sessions.add(container.pid)
        for execution in [one for one in self._executions.values() if one.container is container]:
            execution.signal(signal.SIGKILL)
        self._start_sweeping()
        self._tell_end(container)

    def _tell_end(self, child: Child) -> None:
        if child.failure is not None:
            self._tell("failed", {"id": child.id, **child.failure._asdict()})
        else:
            self._tell("exited", child.outcome())

    # Processes that left their group

    def _start_sweeping(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self._loop.later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Kill what containers that have ended left behind. Whatever lost its parent is a child of ours by now."""
        self._sweeping = False
        table = processes.table()
        strays = [one for one in table.values() if one.parent == os.getpid() and one.pid not in self._by_pid]
        left = [one.pid for one in strays if self._belongs_to_ended(one)]
        for pid in processes.descendants(table, left):
            processes.kill(table[pid])
        if left:
            self._start_sweeping()
        else:
            self._ended_sessions.clear()

    def _belongs_to_ended(self, process: processes.Process) -> bool:
        if process.session in self._ended_sessions:
            return True
        owner, _, name = processes.mark_of(process.pid).partition("/")
        container = self._containers.get(name)
        return owner == self._owner and (container is None or (container.status is not None and not container.stopping))

    # Memory

    def _start_weighing(self) -> None:
        if not self._weighing:
            self._weighing = True
            self._loop.later(_MEMORY_SECONDS, self._weigh)

    def _weigh(self) -> None:
        """Kill containers above their memory limit. The table is read at most for a fiftieth of the time."""
        self._weighing = False
        limited = [one for one in self._containers.values() if one.memory_limit and one.status is None]
        if not limited:
            return
        begin = time.monotonic()
        table = processes.table()
        for container in limited:
            members = processes.descendants(table, [container.pid])
            if sum(table[pid].private_bytes for pid in members) <= container.memory_limit:
                continue
            if processes.held_bytes(members) > container.memory_limit:
                container.out_of_memory = True
                self._kill(container)
        self._weighing = True
        self._loop.later(max(_MEMORY_SECONDS, 50 * (time.monotonic() - begin)), self._weigh)


def _ended_children() -> Iterator[tuple[int, int]]:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def _kill_everything_below(root: int) -> None:
    deadline = time.monotonic() + _SHUTDOWN_SECONDS
    while time.monotonic() < deadline:
        for _ in _ended_children():
            pass
        table = processes.table()
        below = processes.descendants(table, [root]) - {root}
        if not below:
            return
        for pid in below:
            processes.kill(table[pid])
        time.sleep(0.005)


def _close_quietly(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


def main() -> None:
    owner, *modes = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of the socket is the one sign to stop
    channel = Channel(socket.socket(fileno=0))
    sandbox.adopt_orphans()
    mode, refused = sandbox.best_mode(modes or sandbox.MODES)
    supervisor = Supervisor(channel, owner=owner, mode=mode)
    channel.send({"event": "ready", "id": "", "mode": mode, "refused": refused})
    with contextlib.suppress(EOFError, BrokenPipeError):
        supervisor.run()
