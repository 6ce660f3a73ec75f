"""The other ranks of a script that keeps its own loop: what they have is gathered, and they agree when to stop.

They meet in a group beside the script's own, whatever backend that has. Every call of `save` adds one number to a sum
that is read at the next one: when any rank's agent wants to stop, or the first rank wants a file, all ranks see it at
the same call. So all of them save the same step, and no message is waited for.
"""

import datetime
import json
import logging
import os
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, ProcessGroupGloo

from edl.torch.rounds.group import PATIENCE, Group, GroupBrokenError, Round

log = logging.getLogger(__name__)

LATE = datetime.timedelta(seconds=10)  # for ranks that have all made the call before
ACKNOWLEDGED = 1  # a tag
_WRITE = 1 << 20  # more than there are ranks
_met = 0


class Peers(Group):
    """Alone, everything is as with others who always agree."""

    def __init__(self, rank: int, size: int, gloo: Any) -> None:
        super().__init__(Round(0, (), rank, size, ""), gloo, {})
        self.rank, self.size = rank, size
        self._vote: tuple[Any, torch.Tensor] | None = None
        self.in_step = True
        """All ranks call `save` as often as each other."""

    def gather(self, value: Any) -> list[Any]:
        """What every rank gives, by rank. JSON."""
        own = list(json.dumps(value).encode())
        length = max(numbers[0] for numbers in self.all_gather([len(own)]))
        everyone = self.all_gather([len(own), *own, *[0] * (length - len(own))])
        return [json.loads(bytes(numbers[1 : 1 + numbers[0]])) for numbers in everyone]

    def acknowledge(self, rank: int) -> None:
        """What came from this rank. Under a tag of its own: it may be the rank that is sent to as well."""
        self._do(lambda: self._gloo.send([torch.ones(1)], rank, ACKNOWLEDGED))

    def acknowledged(self, rank: int) -> None:
        """Waits until this rank has said so."""
        self._do(lambda: self._gloo.recv([torch.ones(1)], rank, ACKNOWLEDGED))

    def vote(self, stop: bool, write: bool = False) -> tuple[bool, bool]:
        """Whether any rank wished to stop, and whether the first one wished to write, at the call before this one; the
        same answer on all of them."""
        if self.size == 1 or not self.in_step:
            return stop, write
        before, self._vote = self._vote, None
        try:
            votes = 0 if before is None else self._count(*before)
            ballot = torch.tensor([stop + _WRITE * (write and self.rank == 0)])
            self._vote = self._gloo.allreduce([ballot]), ballot
        except RuntimeError as error:  # as gloo raises
            self.in_step = False
            log.warning(
                "save() is not called by all ranks alike, or one is gone: "
                "a change of members costs the steps since the last save (%s)",
                str(error).partition("\n")[0],
            )
            return stop, write
        return votes % _WRITE > 0, votes >= _WRITE

    @staticmethod
    def _count(work: Any, ballot: torch.Tensor) -> int:
        work.wait(LATE)
        return int(ballot.item())


def place() -> tuple[int, int]:
    """Rank and number of ranks."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        raise RuntimeError(
            f"this is one of {size} workers: call torch.distributed.init_process_group before save or load of a "
            "Checkpointer. A script that calls edl.torch.prepare uses edl.torch.checkpoint instead."
        )
    return 0, 1


def meet(patience: datetime.timedelta) -> Peers:
    """All ranks call this. Waits for as long for the others to come. Raises GroupBrokenError."""
    global _met
    rank, size = place()
    if size == 1:
        return Peers(0, 1, None)
    _met += 1
    store = PrefixStore(f"edl-checkpointer-{_met}", dist.distributed_c10d._get_default_store())
    options = ProcessGroupGloo._Options()
    host = os.environ.get("POD_IP", "")
    device = ProcessGroupGloo.create_device(hostname=host) if host else ProcessGroupGloo.create_default_device()
    options._devices, options._timeout = [device], patience
    try:
        store.set(f"here-{rank}", "1")
        store.wait([f"here-{other}" for other in range(size)], patience)
        gloo = ProcessGroupGloo(store, rank, size, options)
        gloo.set_timeout(PATIENCE)
    except RuntimeError as error:  # as torch's stores and gloo raise
        raise GroupBrokenError(f"not all of {size} ranks came to the Checkpointer: {error}") from error
    return Peers(rank, size, gloo)
