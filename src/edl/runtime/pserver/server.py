"""The calls of trainers and of the master on one shard, many at a time.

A trainer's call names its era and a master's its epoch, so that whoever missed a change of hands is refused and learns
of it. One lock covers the shard; files are read and written outside of it.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..rpc import RefusalError, Reply
from . import checkpoint
from .applied import OutOfOrderError
from .lockstep import Round
from .messages import (
    Init,
    Join,
    Leave,
    Message,
    Pull,
    PullRows,
    Push,
    Pushed,
    Release,
    Restore,
    Save,
    Saved,
    State,
    Status,
)
from .shard import Grads, Shard, restored

log = logging.getLogger(__name__)

PATIENCE = 60.0  # seconds that a round of lockstep waits for a trainer that neither pushes nor leaves


class ParameterServer:
    messages = Message

    def __init__(self, directory: Path, *, patience: float = PATIENCE) -> None:
        self._directory, self._patience = directory, patience
        self._changed = threading.Condition()  # guards everything below
        self._shard: Shard | None = None
        self._round = Round()
        self._members: dict[Connection, int] = {}
        self._era, self._place, self._epoch, self._pushes = 0, (0, 0), 0, 0
        self._frozen = self._draining = False
        self._files = threading.Lock()  # one save or restore at a time
        self.released = threading.Event()

    def connected(self) -> "Connection":
        return Connection(self)

    def drain(self) -> None:
        """This process was asked to go; it may when the master has taken it out of the layout."""
        with self._changed:
            self._draining = True
            if self._era == 0:
                self.released.set()

    def status(self, message: Status, payload: memoryview) -> Reply:
        shard = self._shard
        return Reply(
            State(
                era=self._era,
                shard=self._place[0],
                shards=self._place[1],
                initialised=shard is not None,
                frozen=self._frozen,
                draining=self._draining,
                digest=shard.model.digest if shard else "",
                pushes=self._pushes,
                rows=sum(len(table) for table in shard.tables.values()) if shard else 0,
            )
        )

    def init(self, message: Init, payload: memoryview) -> Reply:
        with self._changed:
            self._check_era(message.era)
            if self._shard is None:
                shard = Shard(message.model, *self._place)
                values, _ = _readable(shard, payload, [tensor.name for tensor in message.model.dense])
                for name, array in values.items():
                    shard.dense[name].values[:] = array
                self._shard = shard
            elif self._shard.model.digest != message.model.digest:
                raise RefusalError("model", "the parameter servers hold another model than this trainer declares")
        return Reply()

    def pull(self, message: Pull, payload: memoryview) -> Reply:
        with self._changed:
            parts = [part.values for part in self._usable(message.era).dense.values()]
            copy = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        return Reply(buffers=[copy.data])

    def pull_rows(self, message: PullRows, payload: memoryview) -> Reply:
        with self._changed:
            shard = self._usable(message.era)
            if message.table not in shard.tables:
                raise RefusalError("bad-message", f"the model has no table {message.table!r}")
            rows = shard.tables[message.table].pull(np.frombuffer(payload, np.int64))
        return Reply(buffers=[rows.reshape(-1).data])

    def push(self, message: Push, payload: memoryview) -> Reply:
        key = (message.pass_index, message.chunk, message.step)
        with self._changed:
            shard = self._usable(message.era)
            grads = _readable(shard, payload, message.dense, message.rows)
            if key in self._round.keys:
                self._wait(self._round)
                return Reply(Pushed(False))
            if _duplicate(shard, key):
                return Reply(Pushed(False))
            if shard.model.lockstep:
                self._contribute(message.trainer, key, grads, message.rate)
            else:
                shard.apply(grads, message.rate)
                shard.applied.mark(*key[:2])
            self._pushes += 1
        return Reply(Pushed(True))

    def join(self, connection: "Connection", trainer: int) -> Reply:
        with self._changed:
            self._members[connection] = trainer
        return Reply()

    def leave(self, connection: "Connection") -> Reply:
        with self._changed:
            if self._members.pop(connection, None) is not None:
                self._close_complete_round()
        return Reply()

    def restore(self, message: Restore, payload: memoryview) -> Reply:
        with self._files:
            with self._changed:
                self._obey(message.epoch)
                self._leave_era()
            shard = self._load(message) if message.number else None
            with self._changed:
                self._obey(message.epoch)
                self._shard, self._place = shard, (message.shard, message.shards)
                self._era = message.era
        log.info("era %d: shard %d of %d, checkpoint %d", message.era, message.shard, message.shards, message.number)
        return Reply()

    def save(self, message: Save, payload: memoryview) -> Reply:
        with self._files:
            with self._changed:
                self._obey(message.epoch)
                self._frozen = self._frozen or message.freeze
                if self._era != message.era or self._shard is None:
                    raise RefusalError("era", f"this shard is in era {self._era}")
                about, arrays = self._shard.contents()
            try:
                size = checkpoint.save(self._directory, message.number, *self._place, about, arrays)
            except OSError as error:
                raise RefusalError("disk", f"checkpoint {message.number} cannot be written: {error}") from error
            checkpoint.prune(self._directory, message.keep, below=message.number)
        return Reply(Saved(size))

    def release(self, message: Release, payload: memoryview) -> Reply:
        with self._changed:
            self._obey(message.epoch)
            self._leave_era()
            self.released.set()
        return Reply()

    def _load(self, message: Restore) -> Shard:
        same = message.wrote == message.shards
        needed = [message.shard] if same else range(message.wrote)
        try:
            files = {index: checkpoint.load(self._directory, message.number, index, message.wrote) for index in needed}
        except (checkpoint.DamagedError, msgspec.DecodeError) as error:
            raise RefusalError("damaged", str(error)) from error
        return restored(files, message.wrote, message.shard, message.shards)

    def _leave_era(self) -> None:
        self._era, self._shard, self._frozen = 0, None, False
        self._round = Round()  # whoever waits for the old one sees that it was never applied
        self._changed.notify_all()

    def _obey(self, epoch: int) -> None:
        if epoch < self._epoch:
            raise RefusalError("stale-master", f"a master of epoch {self._epoch} has taken over")
        self._epoch = epoch

    def _check_era(self, era: int) -> None:
        if era != self._era or self._frozen:
            raise RefusalError("era", f"this shard is in era {self._era}, the call is from era {era}")

    def _usable(self, era: int) -> Shard:
        self._check_era(era)
        if self._shard is None:
            raise RefusalError("era", "this shard has no values yet")
        return self._shard

    def _contribute(self, trainer: int, key: tuple[int, int, int], grads: Grads, rate: float | None) -> None:
        self._round.add(trainer, key, grads, rate)
        mine = self._round
        self._close_complete_round()
        self._wait(mine)

    def _wait(self, mine: Round) -> None:
        until = time.monotonic() + self._patience
        while self._round is mine:
            if not self._changed.wait(max(0.0, until - time.monotonic())) and self._round is mine:
                log.warning("a round waited %.0f s for a trainer that is silent; going on without it", self._patience)
                self._close_round()
        if not mine.applied:
            raise RefusalError("era", "the parameters were restored while this push waited")

    def _close_complete_round(self) -> None:
        if self._round.complete(set(self._members.values())):
            self._close_round()

    def _close_round(self) -> None:
        closing, self._round = self._round, Round()
        assert self._shard is not None
        self._shard.apply(closing.mean(), closing.rate)
        for pass_index, chunk, _ in closing.keys:
            self._shard.applied.mark(pass_index, chunk)
        closing.applied = True
        self._changed.notify_all()


class Connection:
    """One trainer's or the master's connection; only its membership in lockstep is its own."""

    def __init__(self, server: ParameterServer) -> None:
        self._server = server
        self._calls: dict[type, Callable[[Any, memoryview], Reply]] = {
            Init: server.init,
            Pull: server.pull,
            PullRows: server.pull_rows,
            Push: server.push,
            Join: lambda message, _: server.join(self, message.trainer),
            Leave: lambda message, _: server.leave(self),
            Status: server.status,
            Restore: server.restore,
            Save: server.save,
            Release: server.release,
        }

    def handle(self, message: Any, payload: memoryview) -> Reply:
        return self._calls[type(message)](message, payload)

    def closed(self) -> None:
        self._server.leave(self)


def _readable(shard: Shard, payload: memoryview, dense: list[str], rows: list[tuple[str, int]] | None = None) -> Grads:
    try:
        return shard.read(payload, dense, rows or [])
    except ValueError as error:
        raise RefusalError("bad-message", str(error)) from error


def _duplicate(shard: Shard, key: tuple[int, int, int]) -> bool:
    try:
        return shard.applied.duplicate(*key)
    except OutOfOrderError as error:
        raise RefusalError("order", str(error)) from error
