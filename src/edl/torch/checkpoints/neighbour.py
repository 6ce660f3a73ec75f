"""A copy of every shard on the next pod, so that the loss of one pod is not the loss of its shard.

A rank sends what it saved to the rank of the same place in the next pod, in a thread, and receives that of the pod
before it, which its own agent holds beside its own. The next `save` waits for the copy of the one before.
"""

import logging
import threading
from collections.abc import Callable

import torch

from edl.torch.checkpoints.buffers import Buffer
from edl.torch.checkpoints.memory_link import Key, MemoryLink
from edl.torch.checkpoints.peers import Peers
from edl.torch.rounds.group import GroupBrokenError

log = logging.getLogger(__name__)


class Neighbour:
    """`peers` is a group of its own: collectives of others do not mix with what is sent here."""

    def __init__(self, peers: Peers, link: MemoryLink, *, in_pod: int, keep: int) -> None:
        self._peers, self._link, self._keep = peers, link, keep
        self._next, self._before = (peers.rank + in_pod) % peers.size, (peers.rank - in_pod) % peers.size
        self._changed = threading.Condition()
        self._task: tuple[Key, Buffer, int, Callable[[], None]] | None = None
        self._broken = False
        self.received = -1
        """The step of the last copy that came."""
        for act in (self._send, self._receive):
            threading.Thread(target=self._run, args=(act,), name="edl-neighbour", daemon=True).start()

    def offer(self, key: Key, buffer: Buffer, length: int, release: Callable[[], None], timeout: float) -> None:
        """Waits until the one before has arrived. `release` is called when the buffer is not needed any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._task is None or self._broken, timeout)
            if self._task is None and not self._broken:
                self._task = key, buffer, length, release
                self._changed.notify_all()
                return
        release()

    def settled(self, step: int, timeout: float) -> bool:
        """Whether all that was offered has arrived, and the neighbour's copy of the step is here."""

        def done() -> bool:
            return self._task is None and self.received >= step

        with self._changed:
            self._changed.wait_for(lambda: self._broken or done(), timeout)
            return done()

    def _run(self, act: Callable[[], None]) -> None:
        try:
            while True:
                act()
        except GroupBrokenError as error:
            log.info("no copies from and for neighbours any more: %s", error)
        with self._changed:
            self._broken = True
            self._changed.notify_all()
        if act == self._send and self._task is not None:
            self._task[3]()

    def _send(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._task is not None)
            assert self._task is not None
            key, buffer, length, release = self._task
        self._peers.send(torch.tensor([key.step, key.branch, length]), self._next)
        self._peers.send(torch.frombuffer(buffer.memory, dtype=torch.uint8, count=length), self._next)
        self._peers.acknowledged(self._next)
        with self._changed:
            self._task = None
            self._changed.notify_all()
        release()

    def _receive(self) -> None:
        head = torch.zeros(3, dtype=torch.int64)
        self._peers.receive(head, self._before)
        step, branch, length = (int(number) for number in head.tolist())
        buffer = Buffer(length)
        self._peers.receive(torch.frombuffer(buffer.memory, dtype=torch.uint8, count=length), self._before)
        if buffer.file is not None:
            slot = f"{self._before}/{self._peers.size}"
            self._link.put(Key(step, branch, slot), buffer.file, keep=self._keep)
        buffer.close()
        self._peers.acknowledge(self._before)  # its agent holds it: nothing of it is on the way any more
        with self._changed:
            self.received = step
            self._changed.notify_all()
