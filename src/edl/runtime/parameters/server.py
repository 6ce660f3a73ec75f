"""Serves one shard to trainers and the master, many calls at a time.

A trainer's call names its era and a master's its epoch: a caller that is behind is refused. One lock covers the shard;
files are read and written outside of it.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from edl.runtime.parameters import checkpoint
from edl.runtime.parameters.applied_pushes import OutOfOrderError
from edl.runtime.parameters.checkpoint import Contents, DamagedCheckpointError, ShardFile
from edl.runtime.parameters.copies import Copies, UnreachableCopyError
from edl.runtime.parameters.lockstep import Round
from edl.runtime.parameters.messages import (
    CopyPart,
    FetchPart,
    Find,
    Found,
    Init,
    Join,
    Leave,
    Message,
    Offer,
    Part,
    Pull,
    PullRows,
    Push,
    Pushed,
    Release,
    Restore,
    Save,
    Saved,
    ServerState,
    Status,
    Wanted,
)
from edl.runtime.parameters.shard import Gradients, Shard, restore_shard
from edl.runtime.rpc import RefusalError, Reply

log = logging.getLogger(__name__)

ROUND_TIMEOUT = 60.0  # seconds that a lockstep round waits for a trainer that neither pushes nor leaves


class ParameterServer:
    messages = Message

    def __init__(self, directory: Path, token: str = "", *, round_timeout: float = ROUND_TIMEOUT) -> None:
        self._directory, self._round_timeout = directory, round_timeout
        self._copies = Copies(directory, token)
        self._changed = threading.Condition()  # guards everything below
        self._shard: Shard | None = None
        self._round = Round()
        self._members: dict[ServerSession, int] = {}
        self._era, self._place, self._epoch, self._pushes = 0, (0, 0), 0, 0
        self._frozen = self._draining = self._fetched = False
        self._files = threading.Lock()  # one save or restore at a time
        self.released = threading.Event()

    def connected(self) -> "ServerSession":
        return ServerSession(self)

    def drain(self) -> None:
        """This process is being terminated; it may exit once the master has removed it from the layout."""
        with self._changed:
            self._draining = True
            if self._era == 0:
                self.released.set()

    def status(self, message: Status, payload: memoryview) -> Reply:
        shard = self._shard
        return Reply(
            ServerState(
                era=self._era,
                shard=self._place[0],
                shards=self._place[1],
                initialised=shard is not None,
                frozen=self._frozen,
                draining=self._draining,
                digest=shard.model.digest if shard else "",
                pushes=self._pushes,
                rows=sum(len(table) for table in shard.tables.values()) if shard else 0,
                fetched=self._fetched,
            )
        )

    def init(self, message: Init, payload: memoryview) -> Reply:
        with self._changed:
            self._check_era(message.era)
            if self._shard is None:
                shard = Shard(message.model, *self._place)
                values, _ = _decode_gradients(shard, payload, [tensor.name for tensor in message.model.dense])
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
            grads = _decode_gradients(shard, payload, message.dense, message.rows)
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

    def join(self, connection: "ServerSession", trainer: int) -> Reply:
        with self._changed:
            self._members[connection] = trainer
        return Reply()

    def leave(self, connection: "ServerSession") -> Reply:
        with self._changed:
            if self._members.pop(connection, None) is not None:
                self._close_complete_round()
        return Reply()

    def restore(self, message: Restore, payload: memoryview) -> Reply:
        with self._files:
            with self._changed:
                self._check_epoch(message.epoch)
                self._leave_era()
                self._fetched = False
            shard = self._load(message) if message.number else None
            with self._changed:
                self._check_epoch(message.epoch)
                self._shard, self._place = shard, (message.shard, message.shards)
                self._era = message.era
        log.info("era %d: shard %d of %d, checkpoint %d", message.era, message.shard, message.shards, message.number)
        return Reply()

    def save(self, message: Save, payload: memoryview) -> Reply:
        with self._files:
            with self._changed:
                self._check_epoch(message.epoch)
                self._frozen = self._frozen or message.freeze
                if self._era != message.era or self._shard is None:
                    raise RefusalError("era", f"this shard is in era {self._era}")
                about, arrays = self._shard.contents()
            try:
                if message.queue:
                    checkpoint.save_queue(self._directory, message.number, self._place[0], message.queue)
                size = checkpoint.save(self._directory, message.number, *self._place, about, arrays)
            except OSError as error:
                raise RefusalError("disk", f"checkpoint {message.number} cannot be written: {error}") from error
            checkpoint.prune(self._directory, message.keep, below=message.number)
            if message.copy_to:
                self._send_copy(message)
            self._fetched = False
        return Reply(Saved(size))

    def find(self, message: Find, payload: memoryview) -> Reply:
        return Reply(Found(*checkpoint.newest(self._directory)))

    def release(self, message: Release, payload: memoryview) -> Reply:
        with self._changed:
            self._check_epoch(message.epoch)
            self._leave_era()
            self.released.set()
        return Reply()

    def offer(self, message: Offer, payload: memoryview) -> Reply:
        file = ShardFile(message.number, message.shard, message.shards)
        return Reply(Wanted(not self._copies.has(file, message.digest)))

    def copy(self, message: CopyPart, payload: memoryview) -> Reply:
        """Not under the lock of files: all servers save and copy at the same time."""
        with self._changed:
            self._check_epoch(message.epoch)
        file = ShardFile(message.number, message.shard, message.shards)
        try:
            self._copies.write_part(file, message.offset, message.last, payload)
        except OSError as error:
            raise RefusalError("disk", f"the copy of {file} cannot be written: {error}") from error
        except DamagedCheckpointError as error:
            raise RefusalError("damaged", str(error)) from error
        return Reply()

    def fetch(self, message: FetchPart, payload: memoryview) -> Reply:
        file = ShardFile(message.number, message.shard, message.shards)
        size, data = self._copies.read_part(file, message.offset)
        return Reply(Part(size), [data])

    def _send_copy(self, message: Save) -> None:
        try:
            self._copies.send(message.copy_to, message.epoch, ShardFile(message.number, *self._place))
        except (OSError, RefusalError) as error:
            raise RefusalError(
                "copy", f"checkpoint {message.number} was not copied to {message.copy_to}: {error}"
            ) from error

    def _load(self, message: Restore) -> Shard:
        same = message.wrote == message.shards
        needed = [message.shard] if same else range(message.wrote)
        try:
            files = {index: self._read(ShardFile(message.number, index, message.wrote), message) for index in needed}
        except (DamagedCheckpointError, msgspec.DecodeError) as error:
            raise RefusalError("damaged", str(error)) from error
        except UnreachableCopyError as error:
            raise RefusalError("unreachable", str(error)) from error
        return restore_shard(files, message.wrote, message.shard, message.shards)

    def _read(self, file: ShardFile, message: Restore) -> Contents:
        """A file from this server's disk, else from another server."""
        try:
            return checkpoint.load(self._directory, file.number, file.shard, file.shards)
        except (DamagedCheckpointError, msgspec.DecodeError):
            if not message.peers:
                raise
        contents = self._copies.fetch(message.peers, file)
        self._fetched = True
        return contents

    def _leave_era(self) -> None:
        self._era, self._shard, self._frozen = 0, None, False
        self._round = Round()  # waiting pushes see that the old one was never applied
        self._changed.notify_all()

    def _check_epoch(self, epoch: int) -> None:
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

    def _contribute(self, trainer: int, key: tuple[int, int, int], grads: Gradients, rate: float | None) -> None:
        self._round.add(trainer, key, grads, rate)
        joined = self._round
        self._close_complete_round()
        self._wait(joined)

    def _wait(self, joined: Round) -> None:
        until = time.monotonic() + self._round_timeout
        while self._round is joined:
            if not self._changed.wait(max(0.0, until - time.monotonic())) and self._round is joined:
                log.warning(
                    "a round waited %.0f s for a trainer that is silent; going on without it", self._round_timeout
                )
                self._close_round()
        if not joined.applied:
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


class ServerSession:
    """One connection of a trainer or the master; its only state is its membership in lockstep."""

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
            Find: server.find,
            Release: server.release,
            Offer: server.offer,
            CopyPart: server.copy,
            FetchPart: server.fetch,
        }

    def handle(self, message: Any, payload: memoryview) -> Reply:
        return self._calls[type(message)](message, payload)

    def closed(self) -> None:
        self._server.leave(self)


def _decode_gradients(
    shard: Shard, payload: memoryview, dense: list[str], rows: list[tuple[str, int]] | None = None
) -> Gradients:
    try:
        return shard.read(payload, dense, rows or [])
    except ValueError as error:
        raise RefusalError("bad-message", str(error)) from error


def _duplicate(shard: Shard, key: tuple[int, int, int]) -> bool:
    try:
        return shard.applied.duplicate(*key)
    except OutOfOrderError as error:
        raise RefusalError("order", str(error)) from error
