"""A process group for the script's own collectives of torch.distributed, which outlives changes of members.

    torch.distributed.all_reduce(tensor, group=elastic.process_group())

Each collective runs in the group of the present round. One that fails leaves its tensors as they were, and the step is
made again; nothing is raised in the script.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import distributed_c10d as c10d

from edl.torch.engine import Engine
from edl.torch.rounds.group import Group


class ScriptGroup(c10d.ProcessGroup):  # type: ignore[misc,unused-ignore]  # torch may not be installed where types are checked
    """What torch.distributed asks of a group: sums, broadcasts, gatherings and barriers."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(0, 1)
        self._engine = engine

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        return "edl"

    def rank(self) -> int:
        return self._engine.world.rank

    def size(self) -> int:
        return self._engine.world.size

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> "Done":
        return self._in_place("allreduce", tensors, opts or c10d.AllreduceOptions())

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> "Done":
        return self._in_place("broadcast", tensors, opts or c10d.BroadcastOptions())

    def allgather(self, outputs: list[list[torch.Tensor]], tensors: list[torch.Tensor], opts: Any = None) -> "Done":
        chosen = opts or c10d.AllgatherOptions()
        return self._together(lambda group: group.run("allgather", outputs, tensors, chosen), outputs)

    def barrier(self, opts: Any = None) -> "Done":
        return self._together(lambda group: group.run("barrier", opts or c10d.BarrierOptions()), [])

    def _in_place(self, kind: str, tensors: list[torch.Tensor], opts: Any) -> "Done":
        copies = [tensor.detach().clone() for tensor in tensors]

        def act(group: Group) -> None:
            group.run(kind, copies, opts)
            for tensor, copy in zip(tensors, copies, strict=True):
                tensor.detach().copy_(copy)

        return self._together(act, tensors)

    def _together(self, act: Callable[[Group], None], result: Any) -> "Done":
        self._engine.together(act)
        return Done(result)


class Done(c10d.Work):  # type: ignore[misc,unused-ignore]  # as above
    """A collective that is over, well or not."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._future: Any = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> Any:
        return self._future
