"""What trainers ask of a master, one connection each. Every answer about work done waits until it is durable."""

import logging
import time
from collections.abc import Callable
from typing import Any

from ..rpc import Nothing, RefusalError, Reply
from .board import Board
from .messages import (
    Acknowledged,
    Assignment,
    Beat,
    Beaten,
    Done,
    Fail,
    Find,
    Found,
    Get,
    GiveBack,
    Hello,
    Holding,
    Initialised,
    Message,
    Stat,
    Stats,
    Welcome,
)
from .queue import Lease

log = logging.getLogger(__name__)

ABSENT = "the trainer's courier is not connected"


class Desk:
    messages = Message

    def __init__(self, board: Board) -> None:
        self.board = board
        self.couriers: dict[int, Visitor] = {}  # by trainer; the newest connection counts

    def connected(self) -> "Visitor":
        return Visitor(self, self.board)


class Visitor:
    def __init__(self, desk: Desk, board: Board) -> None:
        self._desk, self._board = desk, board
        self._trainer, self._pod, self._courier = 0, "", False
        self._calls: dict[type, Callable[[Any], Any]] = {
            Hello: self._hello,
            Get: self._get,
            Beat: self._beat,
            Done: self._done,
            GiveBack: self._give_back,
            Fail: self._fail,
            Find: self._find,
            Initialised: self._initialised,
            Stat: self._stat,
        }

    def handle(self, message: Any, payload: memoryview) -> Reply:
        if not self._trainer and not isinstance(message, Hello | Stat):
            raise RefusalError("hello", "the first call of a connection is hello")
        with self._board.changed:
            return Reply(self._calls[type(message)](message))

    def closed(self) -> None:
        """The trainer's process is gone, or cut off: what it had is given to others at once."""
        with self._board.changed:
            if not self._courier or self._desk.couriers.get(self._trainer) is not self:
                return
            del self._desk.couriers[self._trainer]
            self._board.trainers.pop(self._trainer, None)
            self._board.report.forget(self._trainer)
            tasks = self._board.queue.lost(self._trainer)
            if self._board.initialiser == self._trainer:
                self._board.initialiser = None
            self._board.changed.notify_all()
        log.info("trainer %s is gone, %d tasks given back", self._pod, tasks)

    def _hello(self, message: Hello) -> Welcome:
        self._trainer, self._pod, self._courier = message.trainer, message.pod, message.courier
        if self._courier:
            self._desk.couriers[self._trainer] = self
            self._board.trainers[self._trainer] = self._pod
        return Welcome(self._board.epoch, self._board.term)

    @property
    def _present(self) -> bool:
        """A trainer without a courier may be dead already, while a call that it made still waits here."""
        return self._trainer in self._board.trainers

    def _open(self, chunks: int, passes: int) -> None:
        """Need not be durable by itself: the first task that is acknowledged makes it so; till then all ask again."""
        queue = self._board.queue
        if queue.opened and queue.chunks != chunks:
            raise RefusalError("chunks", f"this job's queue has {queue.chunks} chunks, the script asks for {chunks}")
        if not queue.opened:
            try:
                queue.open(chunks, passes)
            except ValueError as error:
                raise RefusalError("chunks", str(error)) from None
            self._board.changed.notify_all()

    def _get(self, message: Get) -> Assignment:
        self._open(message.chunks, message.passes)
        self._board.report.records = message.records or self._board.report.records
        board, until = self._board, time.monotonic() + message.wait
        while True:
            assignment = self._assignment()
            left = until - time.monotonic()
            if assignment.what != "wait" or left <= 0 or board.stopping:
                return assignment
            board.changed.wait(min(left, 0.5))

    def _assignment(self) -> Assignment:
        board, queue = self._board, self._board.queue
        if queue.failed:
            return Assignment("failed", reason=queue.failed)
        if board.ended:
            return Assignment("end")
        if self._pod in board.view.leaving:
            return Assignment("leave")
        if board.gate or not self._present:
            return Assignment("wait", reason=board.gate or ABSENT)
        lease = queue.lease(self._trainer, time.monotonic())
        if lease is None:
            return Assignment("wait", reason="the last tasks of this pass are with other trainers")
        held = Holding(lease.number, lease.era, lease.pass_index, lease.chunk)
        return Assignment("task", held, passes=queue.passes)

    def _beat(self, message: Beat) -> Beaten:
        now = time.monotonic()
        self._board.report.add(self._trainer, message.samples, message.loss, now)
        queue = self._board.queue
        return Beaten([held.lease for held in message.holdings if not queue.renew(self._lease(held), now)])

    def _done(self, message: Done) -> Acknowledged:
        queue = self._board.queue
        checkpoints = [queue.finish(self._lease(held)) for held in message.holdings]
        if queue.finished:
            self._board.attention.set()  # the last checkpoint
        self._board.settle(queue.version)
        return Acknowledged(checkpoints)

    def _give_back(self, message: GiveBack) -> Nothing:
        self._board.queue.give_back(self._lease(message.holding))
        self._board.changed.notify_all()
        return Nothing()

    def _fail(self, message: Fail) -> Nothing:
        log.warning("chunk %d failed on %s: %s", message.holding.chunk, self._pod, message.reason)
        queue = self._board.queue
        queue.fail(self._lease(message.holding), message.reason)
        self._board.settle(queue.version)
        return Nothing()

    def _find(self, message: Find) -> Found:
        board, until = self._board, time.monotonic() + message.wait
        if not board.queue.parameters:
            board.queue.use_parameters()
            board.gate = "the parameter servers are not ready"
            board.changed.notify_all()
            board.attention.set()
        while True:
            found = self._found(message.model)
            left = until - time.monotonic()
            if found.what != "wait" or left <= 0 or board.stopping:
                return found
            board.changed.wait(min(left, 0.5))

    def _found(self, model: str) -> Found:
        board, era = self._board, self._board.queue.era
        if board.view.wanted == 0:
            raise RefusalError("no-pserver", "this job has no parameter servers; give its spec a `pserver` role")
        if board.digest and board.digest != model:
            raise RefusalError("model", "the parameter servers hold another model than this trainer declares")
        if not board.addresses:
            return Found("wait", reason=board.gate or "the parameter servers are not ready")
        if board.digest:
            return Found("ready", era, board.addresses)
        if board.initialised == era:
            return Found("wait", reason="the first checkpoint is being written")
        if not self._present:
            return Found("wait", reason=ABSENT)
        if board.initialiser in (None, self._trainer):
            board.initialiser = self._trainer
            return Found("initialise", era, board.addresses)
        return Found("wait", reason="another trainer initialises the parameters")

    def _initialised(self, message: Initialised) -> Nothing:
        self._board.initialised = message.era
        self._board.attention.set()
        return Nothing()

    def _stat(self, message: Stat) -> Stats:
        board, queue = self._board, self._board.queue
        return Stats(
            chunks=queue.chunks,
            passes=queue.passes,
            pass_index=queue.pass_index,
            done=queue.done.count,
            leased=len(list(queue.leases)),
            era=queue.era,
            checkpoint=queue.checkpoints[-1].number if queue.checkpoints else 0,
            rollbacks=queue.rollbacks,
            trainers=len(board.trainers),
            gate=board.gate,
            ended=board.ended,
            failed=queue.failed,
        )

    def _lease(self, held: Holding) -> Lease:
        return Lease(held.lease, self._trainer, held.era, held.pass_index, held.chunk)
