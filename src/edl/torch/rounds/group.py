"""The data plane of one round: a gloo group of its own, built beside the present one, cut when a peer is gone.

gloo has no way to abort what is in flight (`abort` and `shutdown` of ProcessGroupGloo change nothing), so a group is
cut by shutting down its sockets: whatever waits on it, here and at its peers, raises at once. The listening socket is
left alone, for gloo ends the process when that one fails. `GroupBrokenError` stands for every way to fail.

A group may have a device plane besides (`planes`), which sums gradients where they lie. It ends with the group.
"""

import contextlib
import datetime
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import PrefixStore, ProcessGroupGloo, TCPStore

from edl.torch.planes.plane import Plane, Polled
from edl.torch.rounds import reachability

if TYPE_CHECKING:
    from edl.torch.ahead.copies import Received, Sent

REACH = datetime.timedelta(seconds=5)
CONNECT = datetime.timedelta(seconds=15)  # of peers that have all said that they are there
PATIENCE = datetime.timedelta(days=7)  # of a collective: whether a peer lives is found out by others
LOOK = 0.02
UNREACHED = 10.0  # seconds without an answer after which a pod counts as out of reach
CHUNK = 32 << 20
VERSION = 3
"""Of what members say to each other. Who speaks another one does not come in, and the others train on."""


class GroupBrokenError(Exception):
    """A peer is gone, or the group was cut: nothing that was under way has happened.

    `unreached`: agents that do not answer, though they may live."""

    def __init__(self, message: str, unreached: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.unreached = unreached


class SupersededError(Exception):
    """There is a newer round: this one need not be built."""


@dataclass(frozen=True)
class Round:
    """A round as a worker is told of it. `members` are agents, `rank` and `size` count workers; `endpoint` is the store
    of the first member, `endpoints` those of all. `shards`: how many workers of a pod share a model; 0: none do.
    `trained` and `plane` are what it tells the others of itself: the round that it trained in (`ahead.plan`), and the
    name of the device plane that it can have; empty: none."""

    number: int
    members: tuple[str, ...]
    rank: int
    size: int
    endpoint: str
    endpoints: tuple[str, ...] = ()
    shards: int = 0
    trained: int = 0
    plane: str = ""

    @property
    def column(self) -> int:
        """Which part of the model this worker has."""
        return self.rank % max(self.shards, 1)


class Group:
    """`column` is the group of those who have the same part of the model, one in each pod. `store` is the round's."""

    def __init__(
        self, round_: Round, gloo: Any, sockets: dict[int, int], column: Any = None, store: Any = None
    ) -> None:
        self.round, self.store = round_, store
        self._gloo, self._sockets, self._column = gloo, sockets, column
        self._plane: Plane | None = None
        self._only_gloo = len(sockets) == round_.size - 1
        """Whether no socket of somebody else was taken for one of gloo's, by chance."""
        self._lock = threading.Lock()
        self._cut = False
        self._busy: float | None = None
        self.trained: tuple[int, ...] = ()
        self.planes: tuple[str, ...] = ()
        """Both as each member has told of itself, by rank."""
        self.ahead: Sent | Received | None = None
        """What has been passed in this group before its round was entered."""

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Sums over all members, in place."""
        if self.round.size > 1:
            self._do(lambda: self._gloo.allreduce([tensor]))

    def all_reduce_shards(self, tensor: torch.Tensor) -> None:
        """Sums over those who have the same part of the model, in place."""
        if self._column is not None:
            self._do(lambda: self._column.allreduce([tensor]))
        elif self._cut:
            raise GroupBrokenError("the group was cut")

    @property
    def device(self) -> torch.device | None:
        """Where gradients can be summed without this host; None: nowhere."""
        return self._plane.device if self._plane is not None else None

    def all_reduce_on_device(self, tensor: torch.Tensor) -> None:
        """Sums over all members, in place, by the device plane. How it went elsewhere only `all_reduce` can say, after
        it: who fails here does not come as far, and has nobody else come there."""
        plane = self._plane
        assert plane is not None
        try:
            self._do(lambda: Polled(plane.all_reduce(tensor), self._check))
        except GroupBrokenError:
            self.cut()
            raise

    def equip(self, plane: Plane) -> None:
        self._plane = plane
        if self._cut:
            plane.abort()

    def unequip(self) -> None:
        plane, self._plane = self._plane, None
        if plane is not None:
            plane.abort()

    def all_gather(self, numbers: list[int]) -> list[list[int]]:
        """The numbers of every rank, by rank."""
        own = torch.tensor(numbers, dtype=torch.int64)
        if self.round.size == 1:
            return [numbers]
        all_of_them = [torch.empty_like(own) for _ in range(self.round.size)]
        self._do(lambda: self._gloo.allgather([all_of_them], [own]))
        return [one.tolist() for one in all_of_them]

    def run(self, kind: str, *words: Any) -> None:
        """A collective of gloo by its name."""
        self._do(lambda: getattr(self._gloo, kind)(*words))

    def send(self, tensor: torch.Tensor, rank: int) -> None:
        for piece in _pieces(tensor):
            self._do(lambda piece=piece: self._gloo.send([piece], rank, 0))  # type: ignore[misc]  # mypy: a default is no argument

    def receive(self, tensor: torch.Tensor, rank: int) -> None:
        for piece in _pieces(tensor):
            self._do(lambda piece=piece: self._gloo.recv([piece], rank, 0))  # type: ignore[misc]  # as above

    def busy(self) -> float:
        """For how many seconds it has waited for its peers."""
        since = self._busy
        return time.monotonic() - since if since is not None else 0.0

    def cut(self) -> None:
        """Ends whatever waits on this group, here and at its peers."""
        with self._lock:
            self._cut = True
            if self._plane is not None:
                self._plane.abort()
            for number, inode in self._sockets.items():
                if _inode(number) == inode:  # else it was closed, and the number is another file's now
                    with contextlib.suppress(OSError):
                        connection = socket.socket(fileno=os.dup(number))
                        connection.shutdown(socket.SHUT_RDWR)
                        connection.close()
            self._sockets = {}

    def drop(self) -> None:
        """Frees it, in a thread: gloo joins threads of its own."""
        self.cut()
        threading.Thread(target=self._free, name="edl-drop", daemon=True).start()

    def _free(self) -> None:
        self._gloo = self._column = self.ahead = self.store = None

    def _do(self, begin: Callable[[], Any]) -> None:
        if self._cut:
            raise GroupBrokenError("the group was cut")
        self._busy = time.monotonic()
        try:
            begin().wait()
        except RuntimeError as error:  # as gloo raises
            raise GroupBrokenError(str(error)) from error
        finally:
            self._busy = None
        if self._cut:
            raise GroupBrokenError("the group was cut")

    def _check(self) -> None:
        """gloo closes the connection of a peer that is gone."""
        if self._cut:
            raise GroupBrokenError("the group was cut")
        if self._only_gloo and any(_inode(number) != inode for number, inode in self._sockets.items()):
            raise GroupBrokenError("a peer closed its connection")


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tensor.split(CHUNK) if tensor.numel() else ()


def build(round_: Round, *, host: str, superseded: Callable[[], bool]) -> Group:
    """Waits until all members are there, then connects to them. Other threads run meanwhile."""
    try:
        store = _reach(round_, superseded)
        trained, planes = _assemble(round_, store, superseded)
        before = set(_sockets())
        gloo = _connect(PrefixStore("gloo", store), round_.rank, round_.size, host)
        column = _connect_column(round_, store, host)
    except RuntimeError as error:  # as torch's stores and gloo raise
        raise GroupBrokenError(str(error), reachability.unreached(round_.members, round_.endpoints)) from error
    sockets = {number: inode for number, inode in _sockets() if (number, inode) not in before}
    if superseded():
        raise SupersededError  # the next group is being built: among these sockets may be some of its own
    group = Group(round_, gloo, sockets, column, store)
    group.trained, group.planes = trained, planes
    return group


def _connect(store: PrefixStore, rank: int, size: int, host: str) -> Any:
    options = ProcessGroupGloo._Options()
    options._devices = (
        [ProcessGroupGloo.create_device(hostname=host)] if host else [ProcessGroupGloo.create_default_device()]
    )
    options._timeout = CONNECT
    gloo = ProcessGroupGloo(store, rank, size, options)
    gloo.set_timeout(PATIENCE)
    return gloo


def _connect_column(round_: Round, store: PrefixStore, host: str) -> Any:
    """None where there is nobody else in it."""
    if not round_.shards or round_.size == round_.shards:
        return None
    place, pods = round_.rank // round_.shards, round_.size // round_.shards
    return _connect(PrefixStore(f"column/{round_.column}", store), place, pods, host)


def _reach(round_: Round, superseded: Callable[[], bool]) -> PrefixStore:
    """The store that the first member's agent opened for this round alone."""
    host, _, port = round_.endpoint.rpartition(":")
    address = host.strip("[]")
    silent = 0.0
    while True:
        if superseded():
            raise SupersededError
        began = time.monotonic()
        try:
            socket.create_connection((address, int(port)), timeout=1.0).close()
            break
        except ConnectionRefusedError:
            silent = 0.0  # it is there; its store is gone with a round that is over
        except OSError:
            silent += max(LOOK, time.monotonic() - began)
        if silent > UNREACHED and (out := reachability.unreached(round_.members, round_.endpoints)):
            raise GroupBrokenError(f"{', '.join(out)} cannot be reached", out)
        threading.Event().wait(LOOK)
    store = TCPStore(address, int(port), is_master=False, wait_for_workers=False, timeout=REACH)
    kind = f"{VERSION}/shards/{round_.shards}" if round_.shards else str(VERSION)
    return PrefixStore(f"round/{round_.number}/workers/{kind}", store)


def _assemble(
    round_: Round, store: PrefixStore, superseded: Callable[[], bool]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """What each tells of itself. It comes with what says that they are there: no change takes longer for it."""
    store.set(f"here/{round_.rank}", f"{round_.trained} {round_.plane}")
    others = [f"here/{rank}" for rank in range(round_.size)]
    while not store.check(others):
        if superseded():
            raise SupersededError
        threading.Event().wait(LOOK)
    said = [told.decode().split(" ") for told in store.multi_get(others)]
    return tuple(int(trained) for trained, _ in said), tuple(plane for _, plane in said)


def _sockets() -> Iterator[tuple[int, int]]:
    """Connected TCP sockets of this process: their numbers and inodes."""
    for name in os.listdir("/proc/self/fd"):
        inode = _inode(int(name))
        if inode is not None and _connected(int(name)):
            yield int(name), inode


def _inode(number: int) -> int | None:
    with contextlib.suppress(OSError):
        status = os.fstat(number)
        return status.st_ino if stat.S_ISSOCK(status.st_mode) else None
    return None


def _connected(number: int) -> bool:
    with contextlib.suppress(OSError):
        copy = socket.socket(fileno=os.dup(number))
        try:
            if copy.family not in (socket.AF_INET, socket.AF_INET6):
                return False
            copy.getpeername()
            return True
        finally:
            copy.close()
    return False
