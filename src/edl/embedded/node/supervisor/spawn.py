"""Forks, enters the sandbox, execs. An error on the way comes back over a pipe that exec closes, so nobody waits."""

import contextlib
import errno
import fcntl
import os
import resource
import signal
import termios
from typing import NamedTuple, NoReturn

from edl.embedded.node.supervisor import sandbox

FILES_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)
"""What containers get: the limit that we were started with, before we raised our own."""

MACHINE_SHORTAGES = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC})
"""Errors of a machine that has no processes, memory, descriptors or disk left: not the command's own."""


class Failure(NamedTuple):
    """Why a process could not be started: `create` (its surroundings, or the machine has nothing left), which is tried
    again without an end, or `start` (the command itself), which counts as the container's failure."""

    stage: str
    message: str

    @classmethod
    def decode(cls, data: bytes) -> "Failure":
        stage, _, message = data.decode(errors="replace").partition("\n")
        return cls(stage, message)


class Command(NamedTuple):
    argv: list[str]
    env: dict[str, str]
    cwd: str
    stdio: tuple[int, int, int]
    tty: bool = False


class SandboxSpec(NamedTuple):
    """The sandbox to make, or (`join`) the process whose sandbox to enter."""

    mode: str
    hostname: str = ""
    mounts: tuple[sandbox.Mount, ...] = ()
    scratch: str = ""
    join: int = 0


def spawn(command: Command, around: SandboxSpec) -> tuple[int, int]:
    """The child's pid, and the read end of the pipe that says how it went: end of file is success."""
    reader, writer = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if pid == 0:
        _child(command, around, parent, writer)
    os.close(writer)
    return pid, reader


def _child(command: Command, around: SandboxSpec, parent: int, report: int) -> NoReturn:
    stage, doing = "create", "create"
    try:
        os.setsid()
        _reset_signals()
        if around.join:
            sandbox.join(around.mode, around.join)
        else:
            sandbox.enter(around.mode, around.hostname, around.mounts, around.scratch)
        sandbox.die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        _prefer_for_oom()
        resource.setrlimit(resource.RLIMIT_NOFILE, FILES_LIMIT)
        for number, fd in enumerate(command.stdio):
            os.dup2(fd, number)
        if command.tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        stage, doing = "start", f"workingDir {command.cwd}"
        os.chdir(command.cwd)
        os.umask(0o022)
        doing = f'exec: "{command.argv[0]}"'
        os.execvpe(command.argv[0], command.argv, command.env)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in MACHINE_SHORTAGES:
            stage = "create"
        os.write(report, f"{stage}\n{doing}: {_explain(error, command, doing)}".encode()[:4000])
    finally:
        os._exit(128)


def _explain(error: BaseException, command: Command, doing: str) -> str:
    if isinstance(error, FileNotFoundError) and doing.startswith("exec") and "/" not in command.argv[0]:
        return "executable file not found in $PATH"
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename and doing == "create" else ""
        return place + (error.strerror or str(error))
    return str(error)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _prefer_for_oom() -> None:
    """When the machine itself runs out of memory, a pod goes before the cluster that runs it."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")
