"""The master's connections to parameter servers: sends the same call to several at once and collects the answers.

Safe to use from several threads: a call has its connection to itself. The end of a master releases servers while the
checkpoint keeper may still ask them.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, TypeVar

from edl.runtime.parameters.messages import Find, Found, Release, Restore, Save, Saved, ServerState, Status
from edl.runtime.rpc import Client, Nothing, RefusalError
from edl.runtime.tasks.progress import QueueSnapshot, decode_snapshot, encode_snapshot
from edl.runtime.tasks.shared_state import ServerSlot

log = logging.getLogger(__name__)

STATUS_TIMEOUT = 5.0  # seconds for an answer from memory
CHECKPOINT_TIMEOUT = 600.0  # for one that reads or writes a checkpoint

R = TypeVar("R")


class ServerConnections:
    def __init__(self, token: str, epoch: int) -> None:
        self._token, self._epoch = token, epoch
        self._idle: dict[ServerSlot, Client] = {}
        self._open: set[Client] = set()
        """All connections, so that closing wakes the calls that wait for an answer."""
        self._pool = ThreadPoolExecutor(32, thread_name_prefix="pservers")

    def states(self, members: Iterable[ServerSlot]) -> dict[ServerSlot, ServerState | None]:
        """The state of each; None if it does not answer."""
        members = list(members)
        found = self._all(members, lambda _, member: self._call(member, Status(), ServerState, STATUS_TIMEOUT))
        return {
            member: state if isinstance(state, ServerState) else None
            for member, state in zip(members, found, strict=True)
        }

    def restore(
        self, layout: Sequence[ServerSlot], era: int, snapshot: QueueSnapshot | None, members: Iterable[ServerSlot]
    ) -> list[Exception]:
        """Makes the servers the shards of the model at `snapshot`, in this order; of an empty model without one. What a
        server does not have on its own disk it gets from one of `members`."""
        members = list(members)
        number, wrote = (snapshot.number, snapshot.shards) if snapshot else (0, 0)

        def restore(shard: int, member: ServerSlot) -> Nothing:
            peers = [other.address for other in members if other != member]
            message = Restore(self._epoch, era, shard, len(layout), number, wrote, peers)
            return self._call(member, message, Nothing, CHECKPOINT_TIMEOUT)

        return self._failures(layout, restore)

    def save(
        self, layout: Sequence[ServerSlot], era: int, snapshot: QueueSnapshot, keep: list[int], freeze: bool
    ) -> list[Exception]:
        """Writes a checkpoint on each server, with the queue beside it, and a copy on the next one."""
        queue = encode_snapshot(snapshot)

        def save(shard: int, member: ServerSlot) -> Saved:
            copy_to = layout[(shard + 1) % len(layout)].address if len(layout) > 1 else ""
            message = Save(self._epoch, era, snapshot.number, keep, freeze, copy_to, queue)
            return self._call(member, message, Saved, CHECKPOINT_TIMEOUT)

        return self._failures(layout, save)

    def newest(self, members: Iterable[ServerSlot]) -> QueueSnapshot | None:
        """Of the checkpoints that are whole on the disk of one of them."""
        found = self._all(list(members), lambda _, member: self._call(member, Find(), Found, CHECKPOINT_TIMEOUT))
        kept = [decode_snapshot(one.queue) for one in found if isinstance(one, Found) and one.number]
        return max((one for one in kept if one is not None), key=lambda snapshot: snapshot.number, default=None)

    def release(self, members: Iterable[ServerSlot]) -> None:
        message = Release(self._epoch)
        self._failures(list(members), lambda _, member: self._call(member, message, Nothing, STATUS_TIMEOUT))

    def close(self) -> None:
        """Ends calls in progress; they and later ones raise ConnectionError."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for client in list(self._open):
            client.close()

    def _failures(self, members: Sequence[ServerSlot], call: Callable[[int, ServerSlot], Any]) -> list[Exception]:
        return [found for found in self._all(members, call) if isinstance(found, Exception)]

    def _all(self, members: Sequence[ServerSlot], call: Callable[[int, ServerSlot], Any]) -> list[Any]:
        def attempt(shard: int, member: ServerSlot) -> Any:
            try:
                return call(shard, member)
            except (OSError, RefusalError) as error:
                log.warning("parameter server %d at %s: %s", member.index, member.address, error)
                return error

        try:
            return list(self._pool.map(attempt, range(len(members)), members))
        except (RuntimeError, CancelledError) as error:
            raise ConnectionError("the connections to the parameter servers are closed") from error

    def _call(self, member: ServerSlot, message: Any, answer: type[R], timeout: float) -> R:
        client = self._idle.pop(member, None)
        if client is None:
            client = Client(member.address, self._token)
            self._open.add(client)
        try:
            client.timeout(timeout)
            reply = client.call(message, answer)
        except RefusalError:
            self._keep(member, client)
            raise
        except BaseException:
            self._drop(client)
            raise
        self._keep(member, client)
        return reply

    def _keep(self, member: ServerSlot, client: Client) -> None:
        if self._idle.setdefault(member, client) is not client:
            self._drop(client)  # another thread has put one back meanwhile; one is enough

    def _drop(self, client: Client) -> None:
        self._open.discard(client)
        client.close()
