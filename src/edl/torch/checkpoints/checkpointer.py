"""`Checkpointer`: a script that keeps its own loop loses nothing but the steps since its last `save`.

`save` copies to memory that the agent holds, and returns; a thread writes to disk. `load` gives all ranks the newest
checkpoint that any of them has. When members change, ranks agree on one more `save` and wait in it to be started anew.
"""

import atexit
import logging
import os
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from edl.torch.checkpoints import choice, peers, shards
from edl.torch.checkpoints.choice import BRANCH, STEP, Chosen, Source
from edl.torch.checkpoints.folder import CheckpointFolder, ShardFile
from edl.torch.checkpoints.memory_link import MemoryLink
from edl.torch.checkpoints.neighbour import Neighbour
from edl.torch.checkpoints.peers import Peers
from edl.torch.checkpoints.shards import Shard
from edl.torch.checkpoints.shelf import Shelf, Slot
from edl.torch.checkpoints.writer import Writer
from edl.torch.rounds.group import GroupBrokenError
from edl.torch.sharded import pieces

log = logging.getLogger(__name__)

COME_TO_LOAD, COME_TO_SAVE = timedelta(minutes=30), timedelta(seconds=30)
PARKED_FOR = 60.0
SAY_PACE = 1.0


class Checkpointer:
    """`path`: a folder that all workers see. `every`: steps between copies to memory; call `save` after every step all
    the same, for that is where members change. `write_every`: seconds between files, of which `keep` stay."""

    def __init__(
        self,
        path: str | Path,
        *,
        every: int = 1,
        write_every: float = 30.0,
        keep: int = 2,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        if every < 1 or keep < 1 or write_every < 0:
            raise ValueError("every and keep must be 1 at least, write_every 0 seconds at least")
        self.values: dict[str, Any] = {}
        """What was saved and cannot be loaded into an object: numbers, lists..."""
        self.source = ""
        """Where the checkpoint came from that was loaded: memory, a neighbour or disk."""
        self._every, self._env = every, env
        self._folder = CheckpointFolder(Path(path).absolute(), keep)
        self._write_every = write_every
        self._link: MemoryLink | None = None
        self._peers: Peers | None = None
        self._shelf: Shelf | None = None
        self._copies = False
        self._sharded: bool | None = None
        self._written = 0.0
        self._writer: Writer | None = None
        self._branch = 0
        self._last: int | None = None
        self._called = self._said = 0.0

    # ---- saving

    def save(self, step: int, **objects: Any) -> None:
        """Call it on all ranks after every step. Objects with `state_dict` are saved by that, others as they are."""
        self._begin(COME_TO_SAVE)
        assert self._peers is not None
        self._tell_pace()
        asked = self._link is not None and self._link.asked_to_stop()
        stop, write = self._peers.vote(asked, self._write_is_due())
        if stop or write or self._last is None or step >= self._last + self._every:
            self._copy(step, objects, write=write or stop or not self._sharded)
        if stop:
            self._park(step)

    def _write_is_due(self) -> bool:
        """Shards are written of the same step by all ranks. What one rank has as a whole, its writer writes when it
        can."""
        return bool(self._sharded) and time.monotonic() >= self._written + self._write_every

    def flush(self, timeout: float | None = None) -> bool:
        """Whether all that was saved is on disk."""
        return self._writer is None or self._writer.flush(timeout)

    def _copy(self, step: int, objects: dict[str, Any], *, write: bool = True) -> None:
        self._last = step
        if not self._copies and self._sharded is not None:
            return
        states = {name: pieces.split(_state(obj)) for name, obj in objects.items()}
        if self._sharded is None:
            self._settle(pieces.is_split(states))
        if self._copies and self._shelf is not None:
            self._shelf.put(step, self._branch, {STEP: step, BRANCH: self._branch, **states}, write=write)
            self._written = time.monotonic() if write else self._written

    def _settle(self, sharded: bool) -> None:
        """Whether every rank has all, or a shard. All ranks call this, at the first copy or load."""
        self._sharded = sharded
        assert self._peers is not None
        assert self._shelf is not None
        if not sharded:
            return
        self._copies = True
        self._shelf.slot = Slot(self._peers.rank, self._peers.size)
        if self._writer is None:
            self._shelf.writer = self._writer = Writer(every=0.0, where=str(self._folder.path))
        in_pod = int(self._env.get("LOCAL_WORLD_SIZE", "1"))
        if self._link is not None and self._peers.size > in_pod:
            copies = peers.meet(COME_TO_LOAD)
            self._shelf.neighbour = Neighbour(copies, self._link, in_pod=in_pod, keep=self._shelf.slot.held)

    def _park(self, step: int) -> None:
        """Until the agent starts this worker anew. All ranks have saved this step, so nobody has done a later one."""
        link = self._link
        if link is None:
            return  # another pod's agent asked, and ours is not one
        if self._shelf is not None and self._shelf.neighbour is not None:
            self._shelf.neighbour.settled(step, PARKED_FOR / 2)
        link.say("parked")
        link.asked_to_stop()
        if link.leaving:
            self.flush(PARKED_FOR)
        link.say("written")
        time.sleep(PARKED_FOR)
        log.warning("members were about to change and did not: training goes on")
        link.resume()

    def _tell_pace(self) -> None:
        """So that the agent knows whether a `save` is worth waiting for."""
        now = time.monotonic()
        pace, self._called = now - self._called if self._called else None, now
        if self._link is not None and (pace is None or now >= self._said + SAY_PACE):
            self._link.say("pace", seconds=pace)
            self._said = now

    # ---- loading

    def load(self, **objects: Any) -> int:
        """The step of the newest checkpoint, which the objects have now; 0 if there is none. Call it on all ranks."""
        self._begin(COME_TO_LOAD)
        assert self._peers is not None
        self._warn_of_different_folders(self._peers)
        layout = pieces.layout_of({name: _plain(obj) for name, obj in objects.items()})
        if layout is not None and not self._sharded:
            self._settle(sharded=True)
        chosen = self._chosen(layout)
        if chosen is None:
            return 0
        state = dict(chosen.state)
        step = int(state.pop(STEP))
        del state[BRANCH]
        self._distribute(state, objects)
        self._last, self.source = step, chosen.where
        log.info("checkpoint of step %d from %s", step, self.source)
        unwritten = self._writer is not None and not layout and step not in self._folder.steps()
        if unwritten or (self._link is not None and (layout or chosen.where != "memory")):
            # What came is as safe here from now on as what was made here.
            self._copy(step, {**self.values, **objects}, write=unwritten)
        return step

    def _chosen(self, layout: pieces.Layout | None) -> Chosen | None:
        assert self._peers is not None
        if layout is None:
            return choice.choose(self._peers, self._sources())
        assert self._shelf is not None
        files = [
            Shard(one.step, one.branch, one.index, one.count, "disk", partial(self._from_disk, one))
            for one in self._folder.shards()
        ]
        found = shards.load(self._peers, [*self._shelf.shards(), *files], layout)
        return None if found is None else Chosen(*found)

    def _distribute(self, state: dict[str, Any], objects: dict[str, Any]) -> None:
        for name, obj in objects.items():
            if name in state:
                _plain(obj).load_state_dict(state.pop(name))
            else:
                log.warning("the checkpoint has nothing of %r", name)
        self.values = state

    def _sources(self) -> list[Source]:
        assert self._shelf is not None
        return [self._shelf.source(), Source("disk", self._folder.steps(), self._from_disk)]

    def _from_disk(self, which: int | ShardFile) -> dict[str, Any] | None:
        try:
            return self._folder.read(which)
        except Exception as error:  # torch raises many kinds for a file that is damaged
            log.warning("%s cannot be read, an older one is tried: %s", self._folder.file(which), error)
            return None

    def _warn_of_different_folders(self, others: Peers) -> None:
        seen = others.gather(self._folder.steps()[:8])
        if others.rank == 0 and any(steps != seen[0] for steps in seen):
            log.warning("%s has not the same files in all pods: mount one volume in all of them", self._folder.path)

    # ---- the beginning

    def _begin(self, patience: timedelta) -> None:
        """With all ranks: from now on they are one training, with a number of its own."""
        if self._peers is not None:
            return
        rank, _ = peers.place()
        self._link = MemoryLink.open(self._env, str(self._folder.path))
        try:
            self._peers = peers.meet(patience)
            self._branch = self._peers.all_gather([time.time_ns()])[0][0]
        except GroupBrokenError as error:
            if patience == COME_TO_LOAD:
                raise RuntimeError(f"load() of a Checkpointer must be called by all ranks: {error}") from error
            self._peers, self._branch = _alone(rank), time.time_ns()
        if self._peers.rank == 0:
            self._folder.sweep()
            self._writer = Writer(every=self._write_every, where=str(self._folder.path))
        atexit.register(self._end)
        # One of the pod's workers is enough: all have the same.
        self._copies = self._writer is not None or (self._link is not None and self._env.get("LOCAL_RANK", "0") == "0")
        self._shelf = Shelf(self._link, self._writer, self._folder)

    def _end(self) -> None:
        """A worker that ends well takes its time; one that fails is started anew, and then others wait for it."""
        if self._link is None or self._link.lost or getattr(sys, "last_value", None) is None:
            self.flush()
        if self._link is not None:
            self._link.close()  # it waits for no save of this worker any more


def _alone(rank: int) -> Peers:
    log.warning("save() of a Checkpointer was not called by all ranks: members cannot agree on a last save")
    return Peers(rank, 1, None)


def _plain(obj: Any) -> Any:
    """Without what wraps it, so that a checkpoint fits whether or not it is wrapped when it is loaded."""
    while True:
        if type(obj).__name__ in ("DistributedDataParallel", "DataParallel"):
            obj = obj.module
        elif hasattr(obj, "_orig_mod"):  # torch.compile
            obj = obj._orig_mod
        else:
            return obj


def _state(obj: Any) -> Any:
    plain = _plain(obj)
    return plain.state_dict() if hasattr(plain, "state_dict") else plain
