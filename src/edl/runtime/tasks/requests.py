"""Answers the requests of trainers, one session per connection. Completions are acknowledged once they are durable."""

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from edl.runtime.rpc import Nothing, RefusalError, Reply
from edl.runtime.tasks.messages import (
    FAILED,
    Acknowledged,
    Assignment,
    Done,
    Fail,
    FindParameters,
    GetStats,
    GetTask,
    GiveBack,
    Heartbeat,
    HeartbeatReply,
    Hello,
    Initialised,
    LeasedTask,
    Message,
    ParameterLocations,
    QueueStats,
    Welcome,
)
from edl.runtime.tasks.queue import Lease
from edl.runtime.tasks.shared_state import SharedState

log = logging.getLogger(__name__)

A = TypeVar("A", Assignment, ParameterLocations)

ABSENT = "the trainer's courier is not connected"


class TrainerRequests:
    """Serves the master's calls: makes a session for every connection."""

    messages = Message

    def __init__(self, shared: SharedState) -> None:
        self.shared = shared
        self.heartbeats: dict[int, TrainerSession] = {}  # by trainer; the newest heartbeat connection counts

    def connected(self) -> "TrainerSession":
        return TrainerSession(self, self.shared)


class TrainerSession:
    """One connection of one trainer. The end of its heartbeat connection is the end of the trainer."""

    def __init__(self, requests: TrainerRequests, shared: SharedState) -> None:
        self._requests, self._shared = requests, shared
        self._trainer, self._pod, self._heartbeat = 0, "", False
        self._calls: dict[type, Callable[[Any], Any]] = {
            Hello: self._hello,
            GetTask: self._get,
            Heartbeat: self._renew,
            Done: self._done,
            GiveBack: self._give_back,
            Fail: self._fail,
            FindParameters: self._find,
            Initialised: self._initialised,
            GetStats: self._stat,
        }

    def handle(self, message: Any, payload: memoryview) -> Reply:
        if not self._trainer and not isinstance(message, Hello | GetStats):
            raise RefusalError("hello", "the first call of a connection is hello")
        with self._shared.changed:
            return Reply(self._calls[type(message)](message))

    def closed(self) -> None:
        """Requeues the trainer's tasks at once: its process is gone or cut off."""
        with self._shared.changed:
            if not self._heartbeat or self._requests.heartbeats.get(self._trainer) is not self:
                return
            del self._requests.heartbeats[self._trainer]
            self._shared.trainers.pop(self._trainer, None)
            self._shared.metrics.forget(self._trainer)
            tasks = self._shared.queue.release_all(self._trainer)
            if self._shared.initialiser == self._trainer:
                self._shared.initialiser = None
            self._shared.changed.notify_all()
        log.info("trainer %s is gone, %d tasks given back", self._pod, tasks)

    def _hello(self, message: Hello) -> Welcome:
        self._trainer, self._pod, self._heartbeat = message.trainer, message.pod, message.heartbeat
        if self._heartbeat:
            self._requests.heartbeats[self._trainer] = self
            self._shared.trainers[self._trainer] = self._pod
        return Welcome(self._shared.epoch, self._shared.term)

    @property
    def _present(self) -> bool:
        """Whether the trainer has a heartbeat connection; without one it may be dead while its call still waits."""
        return self._trainer in self._shared.trainers

    def _open(self, chunks: int, passes: int) -> None:
        """Needs no write of its own: the first acknowledged task makes it durable; until then trainers repeat it."""
        queue = self._shared.queue
        if queue.opened and queue.chunks != chunks:
            raise RefusalError("chunks", f"this job's queue has {queue.chunks} chunks, the script asks for {chunks}")
        if not queue.opened:
            try:
                queue.open(chunks, passes)
            except ValueError as error:
                raise RefusalError("chunks", str(error)) from None
            self._shared.changed.notify_all()

    def _get(self, message: GetTask) -> Assignment:
        self._open(message.chunks, message.passes)
        self._shared.metrics.records = message.records or self._shared.metrics.records
        return self._poll(self._assignment, message.wait)

    def _poll(self, answer: Callable[[], A], seconds: float) -> A:
        """The first answer other than `wait`, or the last one when the time is over."""
        until = time.monotonic() + seconds
        while True:
            found, left = answer(), until - time.monotonic()
            if found.kind != "wait" or left <= 0 or self._shared.stopping:
                return found
            self._shared.changed.wait(min(left, 0.5))

    def _assignment(self) -> Assignment:
        shared, queue = self._shared, self._shared.queue
        if queue.failed:
            return Assignment("failed", reason=queue.failed)
        if shared.ended:
            return Assignment("end")
        if self._pod in shared.observed.leaving:
            return Assignment("leave")
        if shared.pause_reason or not self._present:
            return Assignment("wait", reason=shared.pause_reason or ABSENT)
        lease = queue.lease(self._trainer, time.monotonic())
        if lease is None:
            return Assignment("wait", reason="the last tasks of this pass are with other trainers")
        leased = LeasedTask(lease.number, lease.era, lease.pass_index, lease.chunk)
        return Assignment("task", leased, passes=queue.passes)

    def _renew(self, message: Heartbeat) -> HeartbeatReply:
        now = time.monotonic()
        self._shared.metrics.add(self._trainer, message.samples, message.loss, now)
        queue = self._shared.queue
        return HeartbeatReply([leased.lease for leased in message.tasks if not queue.renew(self._lease(leased), now)])

    def _done(self, message: Done) -> Acknowledged:
        queue = self._shared.queue
        checkpoints = [queue.finish(self._lease(leased)) for leased in message.tasks]
        if queue.finished:
            self._shared.wakeup.set()  # to take the last checkpoint
        self._shared.wait_durable(queue.version)
        return Acknowledged(checkpoints)

    def _give_back(self, message: GiveBack) -> Nothing:
        self._shared.queue.give_back(self._lease(message.task))
        self._shared.changed.notify_all()
        return Nothing()

    def _fail(self, message: Fail) -> Nothing:
        log.warning("chunk %d failed on %s: %s", message.task.chunk, self._pod, message.reason)
        queue = self._shared.queue
        queue.fail(self._lease(message.task), message.reason)
        self._shared.wait_durable(queue.version)
        return Nothing()

    def _find(self, message: FindParameters) -> ParameterLocations:
        shared = self._shared
        if not shared.queue.parameters:
            shared.queue.use_parameters()
            shared.pause_reason = "the parameter servers are not ready"
            shared.changed.notify_all()
            shared.wakeup.set()
        return self._poll(lambda: self._locations(message.model), message.wait)

    def _locations(self, model: str) -> ParameterLocations:
        shared, era = self._shared, self._shared.queue.era
        if shared.queue.failed:
            raise RefusalError(FAILED, shared.queue.failed)
        if shared.observed.wanted == 0:
            raise RefusalError("no-pserver", "this job has no parameter servers; give its spec a `pserver` role")
        if shared.digest and shared.digest != model:
            raise RefusalError("model", "the parameter servers hold another model than this trainer declares")
        if not shared.addresses:
            return ParameterLocations("wait", reason=shared.pause_reason or "the parameter servers are not ready")
        if shared.digest:
            return ParameterLocations("ready", era, shared.addresses)
        if shared.initialised == era:
            return ParameterLocations("wait", reason="the first checkpoint is being written")
        if not self._present:
            return ParameterLocations("wait", reason=ABSENT)
        if shared.initialiser in (None, self._trainer):
            shared.initialiser = self._trainer
            return ParameterLocations("initialise", era, shared.addresses)
        return ParameterLocations("wait", reason="another trainer initialises the parameters")

    def _initialised(self, message: Initialised) -> Nothing:
        self._shared.initialised = message.era
        self._shared.wakeup.set()
        return Nothing()

    def _stat(self, message: GetStats) -> QueueStats:
        shared, queue = self._shared, self._shared.queue
        return QueueStats(
            chunks=queue.chunks,
            passes=queue.passes,
            pass_index=queue.pass_index,
            done=queue.done.count,
            leased=len(list(queue.leases)),
            era=queue.era,
            checkpoint=queue.checkpoints[-1].number if queue.checkpoints else 0,
            rollbacks=queue.rollbacks,
            trainers=len(shared.trainers),
            gate=shared.pause_reason,
            ended=shared.ended,
            failed=queue.failed,
        )

    def _lease(self, leased: LeasedTask) -> Lease:
        return Lease(leased.lease, self._trainer, leased.era, leased.pass_index, leased.chunk)
