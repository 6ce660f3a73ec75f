"""The process that has imported what workers import, and forks each of them from itself.

Forking is safe because nothing happens here but imports: no thread is started, no group joined, no device touched. What
a fresh interpreter would have made anew (arguments, environment, paths, random numbers, `__main__`) is made anew. A
request that differs in anything that is read at import time is declined, and the worker starts in the ordinary way.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import struct
import sys
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edl.runtime.torch import failure_message

READ_AT_IMPORT = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "LD_", "PYTHON", "TORCH_LOGS")
ACCELERATORS = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel", "/dev/davinci", "/dev/hl")
PR_SET_PDEATHSIG = 1


@dataclass
class Request:
    arguments: list[str]
    environment: dict[str, str]
    directory: str
    files: list[int]


@dataclass
class Worker:
    pid: int
    pidfd: int
    connection: socket.socket


class Server:
    """Forks workers until the agent's end of the pipe closes; whose starter ends is killed."""

    def __init__(self, listener: socket.socket, environment: Mapping[str, str]) -> None:
        self._listener, self._environment = listener, environment
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._fork)
        self._selector.register(0, selectors.EVENT_READ, None)
        self._workers: dict[int, Worker] = {}

    def serve(self) -> Request | None:
        """Returns in each worker with its request, and in the zygote itself with None in the end."""
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._kill_all()
                    return None
                if key.data == self._fork:
                    request = self._fork()
                    if request is not None:
                        return request
                elif key.fd in self._workers:
                    self._ended(key.data)
                elif key.data.pid in {worker.pid for worker in self._workers.values()}:
                    _signal(key.data)

    def _fork(self) -> Request | None:
        connection, _ = self._listener.accept()
        try:
            request = _receive(connection)
        except (OSError, ValueError):
            connection.close()
            return None
        if declined := decline(request, self._environment):
            print(f"edl: a worker starts cold: {declined}", file=sys.stderr)
            _answer(connection, {"declined": declined})
            connection.close()
            _close(request.files)
            return None
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            self._become(request, connection, parent)
            return request
        _close(request.files)
        worker = Worker(pid, os.pidfd_open(pid), connection)
        self._workers[worker.pidfd] = worker
        self._selector.register(worker.pidfd, selectors.EVENT_READ, worker)
        self._selector.register(connection, selectors.EVENT_READ, worker)
        _answer(connection, {"pid": pid})
        return None

    def _ended(self, worker: Worker) -> None:
        _, status = os.waitpid(worker.pid, 0)
        _answer(worker.connection, {"status": status})
        self._selector.unregister(worker.pidfd)
        self._selector.unregister(worker.connection)
        worker.connection.close()
        os.close(worker.pidfd)
        del self._workers[worker.pidfd]

    def _kill_all(self) -> None:
        for worker in self._workers.values():
            _signal(worker)

    def _become(self, request: Request, connection: socket.socket, parent: int) -> None:
        """What is the zygote's alone stays behind: sockets, standard files, session."""
        self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)
        os.setsid()
        self._selector.close()
        self._listener.close()
        connection.close()
        for worker in self._workers.values():
            worker.connection.close()
            os.close(worker.pidfd)
        for number, file in enumerate(request.files):
            os.dup2(file, number)
        _close(request.files)


def _signal(worker: Worker) -> None:
    """Its starter is gone: nobody would hear of it any more."""
    try:
        os.killpg(worker.pid, signal.SIGKILL)
    except ProcessLookupError:
        signal.pidfd_send_signal(worker.pidfd, signal.SIGKILL)


def _receive(connection: socket.socket) -> Request:
    connection.settimeout(10.0)
    head, files, _, _ = socket.recv_fds(connection, 4, 3)
    (length,) = struct.unpack("!I", head)
    body = b""
    while len(body) < length:
        part = connection.recv(min(65536, length - len(body)))
        if not part:
            raise ValueError("the request ended early")
        body += part
    connection.settimeout(None)
    asked = json.loads(body)
    return Request(asked["arguments"], asked["environment"], asked["directory"], files)


def _answer(connection: socket.socket, answer: dict[str, int] | dict[str, str]) -> None:
    with contextlib.suppress(OSError):  # the starter may be gone; the selector tells us too
        connection.sendall(json.dumps(answer).encode() + b"\n")


def decline(request: Request, environment: Mapping[str, str]) -> str:
    """Why this one cannot be forked from what was started in this environment."""
    given = request.arguments
    if len(given) < 2 or given[0] != "-u" or (given[1].startswith("-") and given[1] != "-m") or given[-1] == "-m":
        return "only `-u SCRIPT` and `-u -m MODULE` are known"
    if len(request.files) != 3:
        return "three files must come along"
    names = {*environment, *request.environment}
    early = [name for name in names if name.startswith(READ_AT_IMPORT)]
    changed = sorted(name for name in early if environment.get(name) != request.environment.get(name))
    return f"{changed[0]} is read at import and differs" if changed else ""


def run(request: Request) -> None:
    """What the interpreter does after its start."""
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # every fork has the same state otherwise
    if request.arguments[1] == "-m":
        sys.argv = ["-m", *request.arguments[3:]]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(request.arguments[2], run_name="__main__", alter_sys=True)
        return
    script = request.arguments[1]
    sys.argv = request.arguments[1:]
    sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=script, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    exec(compile(Path(script).read_bytes(), script, "exec"), main.__dict__)  # noqa: S102 - an interpreter's work


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def unsafe(files: Iterable[str], threads: int) -> str:
    """Why what was imported must not be forked."""
    if threads > 1:
        return "started a thread, which a fork would not have"
    device = next((file for file in files if file.startswith(ACCELERATORS)), "")
    return f"opened {device}, which a fork could not use" if device else ""


def _open_files() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            yield os.readlink(entry)


def main(arguments: list[str]) -> None:
    folder, listener, ready, *wanted = arguments
    environment = dict(os.environ)  # before imports, some of which write into it
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # torch then looks for GPUs without opening them
    for name in wanted:
        importlib.import_module(name)
    if reason := unsafe(_open_files(), threading.active_count()):
        sys.exit(f"importing {', '.join(wanted)} {reason}")
    gc.collect()
    gc.freeze()  # collecting in a worker would otherwise copy all that is shared
    server = Server(socket.socket(fileno=int(listener)), environment)
    os.write(int(ready), b"warm")
    os.close(int(ready))
    request = server.serve()
    if request is not None:
        try:
            run(request)
        except Exception as error:
            besides = frozenset({__file__, runpy.__file__, "<frozen runpy>"})
            failure_message.write_error_file(error, os.environ, besides=besides)
            raise
    else:
        shutil.rmtree(folder, ignore_errors=True)  # an agent that was killed could not


if __name__ == "__main__":
    main(sys.argv[1:])
