"""Gradients of CUDA devices, summed by NCCL: a communicator for each round, which its own abort ends.

torch's group of NCCL ends the process when a peer is lost, unless told otherwise: its watchdog is turned off, and
errors are found here. It connects without blocking, for only then can it be aborted while it connects, and by its first
sum, for nobody can wait for it otherwise (torchft #320). Nothing here was tried on a GPU.
"""

import datetime
import logging
import os
import threading
import time
from typing import Any

import torch

from edl.torch.planes.plane import Make, PlaneError

log = logging.getLogger(__name__)

OLDEST = (2, 26)  # of NCCL: an abort hangs in older ones (torchft)
PATIENCE = datetime.timedelta(days=7)  # whether a peer lives is found out by others
LOOK = 0.01
GIVEN_UP = 1.0  # seconds that a device may take to end a sum of which NCCL says that it is over
STUCK = 60.0  # seconds that an abort may take
SETTINGS = {
    "TORCH_NCCL_BLOCKING_WAIT": "1",  # without a watchdog, which would end the process
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",  # the same, where there is one
    "TORCH_NCCL_NONBLOCKING_TIMEOUT": "60",  # seconds for which a lock may be held that an abort needs
    "NCCL_RUNTIME_CONNECT": "0",  # all connections with the first sum, none in the middle of the training
}
ENDED = 4  # exit code


def maker(device: torch.device) -> Make:
    """For a device of this process. Called before threads are there that may read the environment."""
    from torch import distributed

    nccl = getattr(distributed, "ProcessGroupNCCL", None)
    if nccl is None or not hasattr(nccl, "abort"):
        raise PlaneError("this torch has no NCCL that can be aborted")
    version = torch.cuda.nccl.version()
    if version < OLDEST:
        raise PlaneError(f"NCCL is {'.'.join(map(str, version))}, it must be {'.'.join(map(str, OLDEST))} at least")
    os.environ.update(SETTINGS)
    return lambda store, rank, size: NcclPlane(store, rank, size, device)


class NcclPlane:
    """torch gives each group of NCCL a stream of its own."""

    def __init__(self, store: Any, rank: int, size: int, device: torch.device) -> None:
        from torch.distributed import ProcessGroupNCCL

        options = ProcessGroupNCCL.Options()
        options.config.blocking = 0
        options._timeout = PATIENCE
        self._device, self._size = device, size
        self._lock = threading.Lock()
        self._nccl: Any = ProcessGroupNCCL(store, rank, size, options)

    @property
    def device(self) -> torch.device:
        return self._device

    def connect(self) -> None:
        """On a stream of its own: the script's must not wait for peers that have not come yet."""
        with torch.cuda.device(self._device), torch.cuda.stream(torch.cuda.Stream(self._device)):
            counted = torch.ones(1, device=self._device)
            sum_ = self.all_reduce(counted)
            while not sum_.over():
                time.sleep(LOOK)
            if int(counted.item()) != self._size:
                raise PlaneError(f"a sum over {self._size} workers is {counted.item()}")

    def all_reduce(self, tensor: torch.Tensor) -> "NcclSum":
        nccl = self._nccl
        if nccl is None:
            raise PlaneError("it was aborted")
        return NcclSum(nccl.allreduce([tensor]), self._device)

    def abort(self) -> None:
        with self._lock:
            nccl, self._nccl = self._nccl, None
        if nccl is not None:  # once: two at a time wait for each other
            threading.Thread(target=_abort, args=(nccl,), name="edl-abort").start()


class NcclSum:
    """The stream of the script waits for it, also for one that is aborted: what it touches is its own until then."""

    def __init__(self, work: Any, device: torch.device) -> None:
        self._work, self._given_up = work, 0.0
        work.synchronize()
        self._done = torch.cuda.Event()
        self._done.record(torch.cuda.current_stream(device))

    def over(self) -> bool:
        """By an event of the device. torch's own word is that a sum is completed, and also that it has failed."""
        if self._done.query():
            return True
        if not self._work.is_completed():
            return False
        self._given_up = self._given_up or time.monotonic() + GIVEN_UP
        if time.monotonic() > self._given_up and not self._done.query():
            raise PlaneError("NCCL has given up a sum")
        return False


def _abort(nccl: Any) -> None:
    """A device whose sum cannot be ended is of no use to this process: its agent starts another one. No daemon, for a
    process that ends meanwhile would crash in it."""
    timer = threading.Timer(STUCK, _end)
    timer.daemon = True
    timer.start()
    try:
        nccl.abort()
    except RuntimeError as error:
        log.warning("NCCL was not aborted in order: %s", error)
    finally:
        timer.cancel()


def _end() -> None:
    log.critical("NCCL was not aborted within %.0f s: this worker ends", STUCK)
    os._exit(ENDED)
