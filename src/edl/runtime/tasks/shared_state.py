"""State that all threads of a master share under one lock: the queue, the trainers, the parameter servers."""

import random
import threading
import time
from dataclasses import dataclass

from edl.runtime.tasks.progress import Progress
from edl.runtime.tasks.queue import TaskQueue
from edl.runtime.tasks.training_metrics import TrainingMetrics


@dataclass(frozen=True)
class ServerSlot:
    """A parameter server as the job service knows it: its slot, the epoch of its claim, and its address."""

    index: int
    epoch: int
    address: str


@dataclass(frozen=True)
class ObservedJob:
    """The job as the operator sees it: parameter servers wanted (None: not known yet) and present (`members`), those of
    them that are being terminated (`departing`), all pods that are (`leaving`), and the number of running trainers."""

    wanted: int | None = None
    members: tuple[ServerSlot, ...] = ()
    departing: frozenset[ServerSlot] = frozenset()
    leaving: frozenset[str] = frozenset()
    running: int | None = None


class StoppingError(ConnectionError):
    """This master is stopping; the caller must retry with the next one."""


class SharedState:
    def __init__(self, progress: Progress, *, epoch: int, term: float) -> None:
        self.changed = threading.Condition()
        self.epoch, self.term = epoch, term
        self.queue = TaskQueue(progress, term=term, new_lease=lambda: random.SystemRandom().getrandbits(62))
        self.observed = ObservedJob()
        self.trainers: dict[int, str] = {}  # pod by trainer number
        self.pause_reason = "the master is starting"  # why no task is leased; empty: tasks are
        self.addresses: list[str] = []  # of the parameter servers by shard, while they are usable
        self.digest = ""  # of the model that they hold
        self.initialiser: int | None = None  # the trainer that sets the start values
        self.initialised = 0  # the era in which it reported that it had
        self.metrics = TrainingMetrics(time.monotonic())
        self.durable = self.queue.version
        self.stopping = False
        self.wakeup = threading.Event()  # set when the checkpoint keeper should reconcile at once

    def wait_durable(self, version: int) -> None:
        """Waits, with the lock held, until the queue's state at `version` is durable."""
        self.changed.notify_all()
        while self.durable < version:
            if self.stopping:
                raise StoppingError("the master is ending")
            self.changed.wait(1.0)

    @property
    def ended(self) -> bool:
        """All passes are done and durable, parameters included."""
        queue = self.queue
        if not queue.finished or self.durable < queue.version:
            return False
        return not queue.parameters or any(snapshot.pass_index >= queue.passes for snapshot in queue.checkpoints)

    def stop(self) -> None:
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self.wakeup.set()
