"""The parameters of a model in a training loop: pulls values and pushes gradients across all parameter servers.

A push belongs to the task under way and is applied once, however often it is sent. If a server is lost, calls wait
until all servers are restored; the task is void then, and its further pushes are dropped.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edl.runtime.parameters.messages import Init, Join, Leave, Pull, PullRows, Push, Pushed
from edl.runtime.parameters.model import Model
from edl.runtime.parameters.rows import sum_by_row
from edl.runtime.rpc import Client, Nothing, RefusalError
from edl.runtime.sharding import dense_ranges, shards_of_rows
from edl.runtime.tasks.messages import FindParameters, Initialised, ParameterLocations
from edl.runtime.trainer_api.master_connection import MasterConnection
from edl.runtime.trainer_api.task import Task
from edl.runtime.wire import Buffer

log = logging.getLogger(__name__)

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
R = TypeVar("R")

WAIT, RETRY = 2.0, 0.05


class TrainerContext(Protocol):
    """The part of a trainer that its parameters use."""

    number: int
    current: Task | None
    master: MasterConnection
    token: str

    def check_leaving(self) -> None: ...


class Parameters:
    def __init__(self, context: TrainerContext, model: Model, start: Mapping[str, Floats]) -> None:
        model.validate()
        self._context, self._model = context, model
        self._start: Mapping[str, Floats] | None = start  # start values, until the servers have values
        self._clients: list[Client] = []
        self._era = 0
        self._joined = False

    def pull(self) -> dict[str, Floats]:
        """The present values of all dense tensors."""
        return self._with_servers(self._pull)

    def pull_rows(self, table: str, ids: ArrayLike) -> Floats:
        """The rows with these numbers, in this order; a number may occur more than once."""
        wanted = np.asarray(ids, np.int64)
        distinct, places = np.unique(wanted.reshape(-1), return_inverse=True)
        rows = self._with_servers(lambda: self._pull_rows(table, distinct))
        return rows[places.reshape(wanted.shape)]

    def push(
        self,
        dense: Mapping[str, ArrayLike] | None = None,
        rows: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
        *,
        learning_rate: float | None = None,
    ) -> None:
        """Gradients of dense tensors by name, and of rows by table: (numbers, gradients)."""
        task = self._context.current
        if task is None:
            raise RuntimeError("push belongs to a task: call it inside `for task in trainer.tasks(...)`")
        flat = {
            tensor.name: self._flat(tensor.name, (dense or {})[tensor.name], tensor.shape)
            for tensor in self._model.dense
            if tensor.name in (dense or {})
        }
        if unknown := set(dense or {}) - set(flat):
            raise ValueError(f"the model has no dense tensor {sorted(unknown)[0]!r}")
        summed = {name: self._summed(name, *pair) for name, pair in (rows or {}).items()}
        self._with_servers(lambda: self._push(task, flat, summed, learning_rate))
        task.step += 1

    def prepare(self) -> None:
        """Returns when the servers have values; sets the start values if the master asks this trainer to."""
        self._with_servers(lambda: None)

    def join(self) -> None:
        """In lockstep: a task is under way, and the other trainers wait for its pushes."""
        if self._model.lockstep and not self._joined:
            self._joined = True
            self._with_servers(lambda: self._send_all(Join(self._context.number)))

    def leave(self) -> None:
        if self._joined:
            self._joined = False
            try:
                self._send_all(Leave())
            except OSError:
                self.close()  # which also leaves the round

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._clients = []

    def _with_servers(self, work: Callable[[], R]) -> R:
        tries = 0
        while True:
            try:
                if not self._clients:
                    self._connect()
                return work()
            except OSError as error:
                tries += 1
                if tries & (tries - 1) == 0:  # at powers of two
                    log.warning("a parameter server does not answer (%s), waiting for it", error)
                if tries > 1:
                    time.sleep(RETRY)  # the master has not noticed the loss yet
            except RefusalError as refusal:
                if refusal.code != "era":
                    raise
            self.close()
            self._context.check_leaving()

    def _connect(self) -> None:
        found = self._find()
        if found.era != self._era:
            self._era = found.era
            task = self._context.current
            if task is not None and task.era != found.era:
                log.warning("parameters were restored; pass %d chunk %d is void", task.pass_index, task.chunk)
                task.void = True
        self._clients = []
        for address in found.addresses:
            self._clients.append(Client(address, self._context.token))
        if found.kind == "initialise":
            self._initialise()
            self.close()
            self._connect()
            return
        self._start = None  # there is a checkpoint now: start values are not needed again
        if self._joined:
            self._send_all(Join(self._context.number))

    def _find(self) -> ParameterLocations:
        logged = ""
        while True:
            self._context.check_leaving()
            found = self._context.master.call(FindParameters(self._model.digest, WAIT), ParameterLocations)
            if found.kind != "wait":
                return found
            if found.reason != logged:
                logged = found.reason
                log.info("waiting: %s", logged)
            if not found.reason:
                threading.Event().wait(0.1)

    def _initialise(self) -> None:
        assert self._start is not None
        flat = {name: np.ascontiguousarray(array, np.float32).reshape(-1) for name, array in self._start.items()}
        for shard, client in enumerate(self._clients):
            client.call(Init(self._era, self._model), Nothing, self._slices(flat, shard))
        self._context.master.call(Initialised(self._era), Nothing)

    def _pull(self) -> dict[str, Floats]:
        result = {tensor.name: np.empty(tensor.shape, np.float32) for tensor in self._model.dense}
        for client in self._clients:
            client.send(Pull(self._era))

        def read(shard: int, client: Client, size: int) -> None:
            for tensor in self._model.dense:
                view = result[tensor.name].reshape(-1)
                for start, stop in dense_ranges(tensor, len(self._clients))[shard]:
                    client.into(view[start:stop].data.cast("B"))

        self._collect(Nothing, read)
        return result

    def _pull_rows(self, table: str, ids: Ids) -> Floats:
        owners = shards_of_rows(ids, len(self._clients))
        result = np.empty((len(ids), self._model.width(table)), np.float32)
        chosen = [np.flatnonzero(owners == shard) for shard in range(len(self._clients))]
        for client, places in zip(self._clients, chosen, strict=True):
            client.send(PullRows(self._era, table), [ids[places].data])

        def read(shard: int, client: Client, size: int) -> None:
            places = chosen[shard]
            result[places] = np.frombuffer(client.take(size), np.float32).reshape(len(places), result.shape[1])

        self._collect(Nothing, read)
        return result

    def _push(
        self, task: Task, dense: Mapping[str, Floats], rows: Mapping[str, tuple[Ids, Floats]], rate: float | None
    ) -> None:
        if task.void or task.era != self._era:
            task.void = True
            return
        owners = {name: shards_of_rows(ids, len(self._clients)) for name, (ids, _) in rows.items()}
        for shard, client in enumerate(self._clients):
            buffers, counts = self._slices(dense, shard), []
            for name, (ids, grads) in rows.items():
                mine = owners[name] == shard
                buffers += [ids[mine].data, grads[mine].reshape(-1).data]
                counts.append((name, int(mine.sum())))
            client.send(
                Push(
                    self._era,
                    self._context.number,
                    task.pass_index,
                    task.chunk,
                    task.step,
                    list(dense),
                    counts,
                    rate,
                ),
                buffers,
            )
        self._collect(Pushed)

    def _send_all(self, message: Join | Leave) -> None:
        for client in self._clients:
            client.send(message)
        self._collect(Nothing)

    def _collect(self, answer: type[R], read: Callable[[int, Client, int], None] | None = None) -> None:
        """Receives every server's answer and `read`s its payload (shard, client, bytes), so that none is left for the
        next call; then raises a refusal, if there was one."""
        failure: RefusalError | None = None
        for shard, client in enumerate(self._clients):
            try:
                _, size = client.receive(answer)
            except RefusalError as refusal:
                failure = refusal
                continue
            if read:
                read(shard, client, size)
        if failure:
            raise failure

    def _slices(self, flat: Mapping[str, Floats], shard: int) -> list[Buffer]:
        shards = len(self._clients)
        return [
            flat[tensor.name][start:stop].data
            for tensor in self._model.dense
            if tensor.name in flat
            for start, stop in dense_ranges(tensor, shards)[shard]
        ]

    def _flat(self, name: str, grad: ArrayLike, shape: tuple[int, ...]) -> Floats:
        array = np.ascontiguousarray(grad, np.float32)
        if array.shape != shape:
            raise ValueError(f"the gradient of {name!r} has shape {array.shape}, the tensor has {shape}")
        return array.reshape(-1)

    def _summed(self, table: str, ids: ArrayLike, grads: ArrayLike) -> tuple[Ids, Floats]:
        """One gradient per row, the sum of all given for it."""
        numbers = np.asarray(ids, np.int64).reshape(-1)
        width = self._model.width(table)
        values = np.asarray(grads, np.float32).reshape(len(numbers), -1 if len(numbers) else width)
        if values.shape[1] != width:
            raise ValueError(f"rows of {table!r} have {width} columns, the gradients have {values.shape[1]}")
        distinct, total = sum_by_row(numbers, values)
        return (numbers, np.ascontiguousarray(values)) if len(distinct) == len(numbers) else (distinct, total)
