"""Stands for one worker that the zygote forks: the agent's signals go to the worker, its exit code comes to the agent.

Runs by itself on an interpreter without site-packages, so that it starts in milliseconds: it imports nothing of ours.
Whenever the zygote is not there or declines, it becomes an ordinary interpreter with the same arguments.
"""

import array
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import NoReturn

FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
OFFER = "EDL_ZYGOTE"


def main(python: str, arguments: list[str]) -> NoReturn:
    offer = os.environ.pop(OFFER, "")
    connection = _ask(offer, arguments) if offer else None
    if connection is None:
        os.execv(python, [python, *arguments])
    pid = _receive(connection).get("pid", 0)
    if not pid:
        os.execv(python, [python, *arguments])
    worker = os.pidfd_open(pid)
    for name in FORWARDED:
        signal.signal(getattr(signal, name), lambda number, frame: signal.pidfd_send_signal(worker, number))
    _end_like(_receive(connection).get("status", signal.SIGKILL))


def _ask(offer: str, arguments: list[str]) -> socket.socket | None:
    request = {"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd()}
    body = json.dumps(request).encode()
    files = array.array("i", [0, 1, 2])
    try:
        connection = socket.socket(socket.AF_UNIX)
        folder = os.open(offer, os.O_PATH)  # its path may be too long for an address
        connection.connect(f"/proc/self/fd/{folder}/socket")
        os.close(folder)
        connection.sendmsg([struct.pack("!I", len(body))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        connection.sendall(body)
    except OSError:
        return None
    return connection


def _receive(connection: socket.socket) -> dict[str, int]:
    """One line of JSON; nothing if the zygote is gone."""
    line = b""
    while not line.endswith(b"\n"):
        try:
            part = connection.recv(256)
        except OSError:
            part = b""
        if not part:
            return {}
        line += part
    answer: dict[str, int] = json.loads(line)
    return answer


def _end_like(status: int) -> NoReturn:
    """With the same code, or by the same signal (without a second core dump)."""
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
