"""Starts workers that need not import torch again: a process that has imported it once forks each of them.

Most of the time that a regroup costs is spent importing torch in every new worker. The agent keeps a zygote (see
`zygote`) beside it and lets torchrun start a starter in place of the worker (see `worker_starter`); the starter asks
the zygote for the worker, stands for it (signals, exit code) and becomes an ordinary interpreter whenever anything is
unusual.
"""

import contextlib
import logging
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

log = logging.getLogger(__name__)

IMPORTS = (
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.optim",
    "torch.utils.data",
    "torch._dynamo",  # making an optimizer imports it
)
WARM_BY = 120.0
OFFER = "EDL_ZYGOTE"

_SAFE_PATH = ("-P",) if sys.version_info >= (3, 11) else ()  # the working directory is not searched for modules
_ZYGOTE = (sys.executable, "-u", *_SAFE_PATH, "-m", "edl.runtime.torch.zygote")


class Zygote:
    """Ends when the agent does, in whatever way that ends: it holds the other end of our pipe."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", ready: int) -> None:
        self._folder, self._process, self._ready = folder, process, ready
        self._warm: bool | None = None
        self._closed = False

    @classmethod
    def start(cls, env: Mapping[str, str], imports: Sequence[str] = IMPORTS) -> "Zygote | None":
        """None if it cannot be done here; what EDL_WARM_IMPORTS names is imported besides."""
        wanted = [*imports, *filter(None, env.get("EDL_WARM_IMPORTS", "").split(","))]
        if not sys.platform.startswith("linux"):
            return None
        try:
            return cls._start(env, wanted)
        except OSError as error:  # no place for a socket, no process to be had...
            log.warning("workers start cold: %s", error)
            return None

    @classmethod
    def _start(cls, env: Mapping[str, str], wanted: list[str]) -> "Zygote":
        folder = Path(tempfile.mkdtemp(prefix="edl-warm-"))
        ready, tell = os.pipe()
        with socket.socket(socket.AF_UNIX) as listener:
            _bind(listener, folder)
            files = (listener.fileno(), tell)
            process = subprocess.Popen(
                [*_ZYGOTE, str(folder), *map(str, files), *wanted], stdin=subprocess.PIPE, pass_fds=files, env=dict(env)
            )
        os.close(tell)
        return cls(folder, process, ready)

    @property
    def pid(self) -> int:
        return self._process.pid

    def through(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """The interpreter's arguments with which it is a starter of a worker with these."""
        return ("-I", "-S", str(Path(__file__).with_name("worker_starter.py")), sys.executable, *arguments)

    def wait_until_warm(self, timeout: float = WARM_BY) -> bool:
        """Whether it is warm. If it does not get so in time, workers start as they would without it."""
        if self._warm is None:
            began = time.monotonic()
            readable, _, _ = select.select([self._ready], [], [], timeout)
            self._warm = bool(readable) and os.read(self._ready, 4) == b"warm"
            log.log(
                logging.INFO if self._warm else logging.WARNING,
                "workers %s (%.1f s)",
                "start from a warm process" if self._warm else "start cold: what they import could not be prepared",
                time.monotonic() - began,
            )
        return self._warm

    @contextlib.contextmanager
    def offered(self) -> Iterator[None]:
        """Within this, starters that begin find the zygote through their environment."""
        if self.wait_until_warm() and self._process.poll() is None:
            os.environ[OFFER] = str(self._folder)
        try:
            yield
        finally:
            os.environ.pop(OFFER, None)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._ready)
        shutil.rmtree(self._folder, ignore_errors=True)


def _bind(listener: socket.socket, folder: Path) -> None:
    """Through the folder's descriptor: an address has at most 107 bytes, a path may have more."""
    opened = os.open(folder, os.O_PATH)
    try:
        listener.bind(f"/proc/self/fd/{opened}/socket")
    finally:
        os.close(opened)
    listener.listen(64)
