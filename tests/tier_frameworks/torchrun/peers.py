"""Workers of elastic training as threads of the test: what the engine does with a script, without processes.

Their group is a barrier, their agent and the job service are a few lines here. A test says in which collective of which
round the group breaks, who is lost with it, and who heard its result before.
"""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from edl.torch import preparation
from edl.torch.engine import Engine
from edl.torch.optimizer import attach
from edl.torch.preparation import Options
from edl.torch.rounds.group import Group, GroupBrokenError, Round

T = TypeVar("T")
PATIENCE = 60.0


@dataclass(frozen=True)
class Break:
    """The group breaks in this collective (from 1). `lost` ranks end, `heard` ones have its result all the same."""

    at: int
    lost: tuple[int, ...] = ()
    heard: tuple[int, ...] = ()


class Meeting:
    """Where the members of one round exchange what they have."""

    def __init__(self, size: int, breaks: Break | None) -> None:
        self._barrier = threading.Barrier(size)
        self._slots: list[Any] = [None] * size
        self._counts, self._breaks = [0] * size, breaks
        self._heard = threading.Semaphore(0)
        self._queues = {(a, b): queue.Queue[torch.Tensor]() for a in range(size) for b in range(size)}

    def exchange(self, rank: int, value: Any) -> list[Any]:
        """What all have, by rank."""
        try:
            self._slots[rank] = value
            self._barrier.wait(PATIENCE)
            found = list(self._slots)
            self._barrier.wait(PATIENCE)
        except threading.BrokenBarrierError:
            raise GroupBrokenError("the group was cut") from None
        self._counts[rank] += 1
        if self._breaks and self._counts[rank] == self._breaks.at:
            self._break(rank, self._breaks)
        return found

    def _break(self, rank: int, breaks: Break) -> None:
        if rank in breaks.heard:
            self._heard.release(len(self._slots))
            return
        for _ in breaks.heard:
            self._heard.acquire(timeout=PATIENCE)
        self.cut()
        raise GroupBrokenError("a peer is gone")

    def send(self, source: int, target: int, tensor: torch.Tensor) -> None:
        self._queues[source, target].put(tensor.clone())

    def receive(self, source: int, target: int) -> torch.Tensor:
        return self._queues[source, target].get(timeout=PATIENCE)

    def cut(self) -> None:
        self._barrier.abort()


class MeetingGroup(Group):
    def __init__(self, round_: Round, meeting: Meeting) -> None:
        super().__init__(round_, None, {})
        self._meeting = meeting

    def all_reduce(self, tensor: torch.Tensor) -> None:
        tensor.copy_(sum(self._meeting.exchange(self.round.rank, tensor.clone())))

    def all_gather(self, numbers: list[int]) -> list[list[int]]:
        return self._meeting.exchange(self.round.rank, numbers)

    def run(self, kind: str, *words: Any) -> None:
        if kind == "allreduce":
            for tensor in words[0]:
                self.all_reduce(tensor)
        elif kind == "broadcast":
            found = self._meeting.exchange(self.round.rank, [tensor.clone() for tensor in words[0]])
            for tensor, sent in zip(words[0], found[words[1].rootRank], strict=True):
                tensor.copy_(sent)
        else:
            self._meeting.exchange(self.round.rank, None)

    def send(self, tensor: torch.Tensor, rank: int) -> None:
        self._meeting.send(self.round.rank, rank, tensor)

    def receive(self, tensor: torch.Tensor, rank: int) -> None:
        tensor.copy_(self._meeting.receive(rank, self.round.rank))

    def cut(self) -> None:
        self._meeting.cut()


class LostError(BaseException):
    """This worker was killed."""


class Link:
    """An agent's connection, as a worker sees it."""

    def __init__(self, name: str, peers: "Peers") -> None:
        self.name, self._peers = name, peers
        self.condition = threading.Condition()
        self.round: Round | None = None
        self.leaving = self.for_good = False
        self.said: list[tuple[str, dict[str, Any]]] = []

    @property
    def newest(self) -> int:
        return self.round.number if self.round else 0

    def say(self, kind: str, **fields: Any) -> None:
        self.said.append((kind, fields))
        if kind == "broken":
            self._peers.broken(self, fields["round"])

    def tell(self, round_: Round) -> None:
        with self.condition:
            self.round = round_
            self.condition.notify_all()


@dataclass
class Worker:
    """What a script gets: the calls of `edl.torch`, for one of several workers."""

    link: Link
    peers: "Peers"
    engine: Engine = field(init=False)

    def prepare(self, model: Any, optimizer: Any, loader: Any = None, **options: Any) -> Any:
        models = model if isinstance(model, list) else [model]
        optimizers = optimizer if isinstance(optimizer, list) else [optimizer]
        chosen = Options(**{"seed": 7, **options})
        preparation.check(models, optimizers, loader, chosen, self.peers.env)
        link: Any = self.link  # one in all that matters
        self.engine = preparation.assemble(
            models, optimizers, chosen, link=link, build=self.peers.build, env=self.peers.env
        )
        return None if loader is None else preparation.make_loader(loader, self.engine, chosen.micro_batch)

    def register(self, name: str, obj: Any) -> None:
        attach(self.engine, name, obj)

    def epochs(self, count: int) -> Any:
        self.engine.join()
        while self.engine.state.cursor.epoch < count:
            yield self.engine.state.cursor.epoch
        self.engine.members.finish()


class Peers:
    """`breaks` are by round."""

    def __init__(
        self, size: int, breaks: Mapping[int, Break] | None = None, *, env: Mapping[str, str] | None = None
    ) -> None:
        self.env = env or {}
        self._breaks = dict(breaks or {})
        self._lock = threading.Lock()
        self._meetings: dict[int, Meeting] = {}
        self._members = [Link(f"worker-{at}", self) for at in range(size)]
        self._broken: dict[int, set[str]] = {}
        self.links = list(self._members)

    def run(self, script: Callable[[Worker], T]) -> list[T]:
        """What the script returned, by worker; without those that were lost."""
        found: dict[str, T] = {}
        failures: list[BaseException] = []

        def work(link: Link) -> None:
            try:
                found[link.name] = script(Worker(link, self))
            except LostError:
                pass
            except BaseException as error:
                failures.append(error)

        with self._lock:
            self._announce(1)
        threads = [threading.Thread(target=work, args=(link,), daemon=True) for link in self.links]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
        if failures:
            raise failures[0]
        assert not any(thread.is_alive() for thread in threads), "a worker waits for ever"
        return [found[link.name] for link in self.links if link.name in found]

    def build(self, round_: Round, superseded: Callable[[], bool]) -> Group:
        return MeetingGroup(round_, self._meetings[round_.number])

    def broken(self, link: Link, number: int) -> None:
        """A worker lost a peer: when all who are left have, the next round forms of them."""
        with self._lock:
            breaks, members = self._breaks.get(number), self._members
            assert link in members
            lost = [members[rank] for rank in breaks.lost] if breaks else []
            said = self._broken.setdefault(number, set())
            said.add(link.name)
            if len(said) == len(members):
                self._members = [one for one in members if one not in lost]
                self._announce(number + 1)
        if link in lost:
            raise LostError

    def _announce(self, number: int) -> None:
        names = tuple(link.name for link in self._members)
        self._meetings[number] = Meeting(len(names), self._breaks.get(number))
        for rank, link in enumerate(self._members):
            link.tell(Round(number, names, rank, len(names), ""))


def loop(order: Sequence[int], batch: int) -> list[Sequence[int]]:
    """The batches that one worker would train."""
    return [order[at : at + batch] for at in range(0, len(order), batch)]
