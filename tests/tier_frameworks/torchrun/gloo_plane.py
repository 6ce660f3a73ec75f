"""A device plane that runs without a device: a second group of gloo, on the CPU, as patient as NCCL.

A sum whose peer is gone does not fail: it is never over, until it is aborted. What was aborted may still write, so
it writes elsewhere. Started as a script, it is `examples/pytorch/elastic.py` with this plane and all places at which a
test can hold a worker: before its sum on the device, and between that and the numbers.
"""

import datetime
import os
import sys
import threading
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from torch.distributed import ProcessGroupGloo

from edl.torch.planes import choice
from edl.torch.planes.plane import Make, PlaneError
from edl.torch.rounds.group import Group
from tests.tier_frameworks.torchrun import aimed_living
from tests.tier_frameworks.torchrun.aimed import FOLDER, after, before

PATIENCE = datetime.timedelta(days=7)


class GlooSum:
    def __init__(self, gloo: Any, tensor: torch.Tensor, aborted: threading.Event) -> None:
        self._tensor, self._copy, self._aborted = tensor, tensor.clone(), aborted
        self._done = threading.Event()
        threading.Thread(target=self._run, args=(gloo,), daemon=True).start()

    def _run(self, gloo: Any) -> None:
        try:
            gloo.allreduce([self._copy]).wait()
            self._done.set()
        except RuntimeError:
            pass  # a device says nothing, and waits

    def over(self) -> bool:
        if self._aborted.is_set():
            raise PlaneError("it was aborted")
        if self._done.is_set():
            self._tensor.copy_(self._copy)
        return self._done.is_set()


class GlooPlane:
    device = torch.device("cpu")

    def __init__(self, store: Any, rank: int, size: int) -> None:
        options = ProcessGroupGloo._Options()
        options._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
        options._timeout = datetime.timedelta(seconds=30)
        self._gloo: Any = ProcessGroupGloo(store, rank, size, options)
        self._gloo.set_timeout(PATIENCE)
        self._aborted = threading.Event()

    def connect(self) -> None:
        if os.environ.get("PLANE_FAILS"):
            raise PlaneError("no way from device to device")

    def all_reduce(self, tensor: torch.Tensor) -> GlooSum:
        (Path(os.environ[FOLDER]) / f"{os.getpid()}.device").touch()
        return GlooSum(self._gloo, tensor, self._aborted)

    def abort(self) -> None:
        self._aborted.set()


def maker(device: torch.device) -> Make:
    return GlooPlane


def main() -> None:
    choice.KINDS["cpu"] = ("second-gloo", maker)
    held = after("device-summed", before("device-sum", Group.all_reduce_on_device))
    Group.all_reduce_on_device = held  # type: ignore[method-assign]  # meant
    aimed_living.main()
    sys.stdout.flush()
    os._exit(0)  # threads of sums that were aborted are still in gloo, and would crash when Python ends


if __name__ == "__main__":
    main()
