"""The master's connections to parameter servers: the same call to several of them at once, and what each answered."""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..pserver.messages import Release, Restore, Save, Saved, State, Status
from ..rpc import Client, Nothing, RefusalError
from .board import Member
from .progress import Cut

log = logging.getLogger(__name__)

QUICK, SLOW = 5.0, 600.0  # seconds for an answer from memory, and for one that reads or writes a checkpoint

R = TypeVar("R")


class Fleet:
    def __init__(self, token: str, epoch: int) -> None:
        self._token, self._epoch = token, epoch
        self._clients: dict[Member, Client] = {}
        self._pool = ThreadPoolExecutor(32, thread_name_prefix="fleet")

    def states(self, members: Iterable[Member]) -> dict[Member, State | None]:
        """How each is; None: it does not answer."""
        members = list(members)
        found = self._all(members, lambda _, member: self._call(member, Status(), State, QUICK))
        return {
            member: state if isinstance(state, State) else None for member, state in zip(members, found, strict=True)
        }

    def restore(self, layout: Sequence[Member], era: int, cut: Cut | None) -> list[Exception]:
        """Makes them the shards of a model, in this order, as it was at `cut`; empty without one."""
        number, wrote = (cut.number, cut.shards) if cut else (0, 0)

        def restore(shard: int, member: Member) -> Nothing:
            message = Restore(self._epoch, era, shard, len(layout), number, wrote)
            return self._call(member, message, Nothing, SLOW)

        return self._failures(layout, restore)

    def save(self, layout: Sequence[Member], era: int, number: int, keep: list[int], freeze: bool) -> list[Exception]:
        message = Save(self._epoch, era, number, keep, freeze)
        return self._failures(layout, lambda _, member: self._call(member, message, Saved, SLOW))

    def release(self, members: Iterable[Member]) -> None:
        message = Release(self._epoch)
        self._failures(list(members), lambda _, member: self._call(member, message, Nothing, QUICK))

    def close(self) -> None:
        for client in list(self._clients.values()):
            client.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _failures(self, members: Sequence[Member], call: Callable[[int, Member], Any]) -> list[Exception]:
        return [found for found in self._all(members, call) if isinstance(found, Exception)]

    def _all(self, members: Sequence[Member], call: Callable[[int, Member], Any]) -> list[Any]:
        def attempt(shard: int, member: Member) -> Any:
            try:
                return call(shard, member)
            except (OSError, RefusalError) as error:
                log.warning("parameter server %d at %s: %s", member.index, member.address, error)
                return error

        return list(self._pool.map(attempt, range(len(members)), members))

    def _call(self, member: Member, message: Any, answer: type[R], timeout: float) -> R:
        client = self._clients.get(member)
        try:
            if client is None:
                client = self._clients[member] = Client(member.address, self._token)
            client.timeout(timeout)
            return client.call(message, answer)
        except OSError:
            self._clients.pop(member, None)
            if client is not None:
                client.close()
            raise
