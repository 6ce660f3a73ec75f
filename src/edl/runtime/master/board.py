"""What all threads of a master share under one lock: the queue, who works, where the parameters are."""

import random
import threading
import time
from dataclasses import dataclass

from .progress import Progress
from .queue import TaskQueue
from .report import Report


@dataclass(frozen=True)
class Member:
    """A parameter server as the job service knows it: which slot it holds, since which epoch, and where it listens."""

    index: int
    epoch: int
    address: str


@dataclass(frozen=True)
class View:
    """The job as the operator sees it: parameter servers wanted (None: not known yet) and there, of these the ones that
    were asked to go, all pods that were, and how many trainers run."""

    wanted: int | None = None
    members: tuple[Member, ...] = ()
    departing: frozenset[Member] = frozenset()
    leaving: frozenset[str] = frozenset()
    running: int | None = None


class StoppingError(ConnectionError):
    """This master is ending; the call must be made again, to the next one."""


class Board:
    def __init__(self, progress: Progress, *, epoch: int, term: float) -> None:
        self.changed = threading.Condition()
        self.epoch, self.term = epoch, term
        self.queue = TaskQueue(progress, term=term, draw=lambda: random.SystemRandom().getrandbits(62))
        self.view = View()
        self.trainers: dict[int, str] = {}  # by number, the pod
        self.gate = "the master is starting"  # why no task is given out; empty: tasks are
        self.addresses: list[str] = []  # of the parameter servers, by shard, when they can be used
        self.digest = ""  # of the model that they hold
        self.initialiser: int | None = None  # the trainer that gives the model its first values
        self.initialised = 0  # the era in which it said that it had
        self.report = Report(time.monotonic())
        self.durable = self.queue.version
        self.stopping = False
        self.attention = threading.Event()  # set when the keeper should look at once

    def settle(self, version: int) -> None:
        """Waits, with the lock held, until what the queue was at `version` is durable."""
        self.changed.notify_all()
        while self.durable < version:
            if self.stopping:
                raise StoppingError("the master is ending")
            self.changed.wait(1.0)

    @property
    def ended(self) -> bool:
        """All passes are done and nothing of them can be lost any more."""
        queue = self.queue
        if not queue.finished or self.durable < queue.version:
            return False
        return not queue.parameters or any(cut.pass_index >= queue.passes for cut in queue.checkpoints)

    def stop(self) -> None:
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self.attention.set()
