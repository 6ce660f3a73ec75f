"""The agent's end of the connections to its workers: which of them live on through changes, and what they said last.

Workers that never call `edl.torch` never connect, and everything stays as without this. All workers of a pod come and
go together: they count only when all are there.
"""

import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edl.protocol.rendezvous import NO_CHANGE, Change
from edl.runtime.torch.lines import Lines

log = logging.getLogger(__name__)

PING = 1.0


@dataclass
class Worker:
    lines: Lines
    local_rank: int
    pid: int
    ready: bool = False
    broken: int = 0
    """The last round that it lost a peer in."""
    unreached: tuple[str, ...] = ()
    """Agents that did not answer it then."""
    switched: int = 0
    """The round that it trains in."""
    change: Change = NO_CHANGE
    """What it said of how it came there."""
    idle: bool = False
    """It has no group to train in."""
    left: bool = False
    heard: float = field(default_factory=time.monotonic)


class WorkerHub:
    """`changed` is called, on any thread, after every message."""

    def __init__(self, *, changed: Callable[[], None] = lambda: None) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        name, self._token = f"edl-{os.getpid()}-{secrets.token_hex(8)}", secrets.token_hex(16)
        self._listener.bind("\0" + name)
        self._listener.listen(64)
        self.link = f"{name}:{self._token}"
        self.expected = 1
        self._changed, self._lock = changed, threading.Lock()
        self._workers: dict[int, Worker] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="edl-workers", daemon=True).start()
        threading.Thread(target=self._ping, name="edl-pings", daemon=True).start()

    @property
    def workers(self) -> list[Worker]:
        with self._lock:
            return list(self._workers.values())

    @property
    def complete(self) -> bool:
        """All workers of the pod live on through changes."""
        return len(self.workers) == self.expected

    @property
    def ready(self) -> bool:
        return self.complete and all(worker.ready for worker in self.workers)

    @property
    def trains(self) -> bool:
        """Whether all have the state of the training: they have entered a round."""
        return self.complete and all(worker.switched for worker in self.workers)

    @property
    def idle(self) -> bool:
        return any(worker.idle for worker in self.workers)

    def broken(self, number: int) -> bool:
        """Whether workers have lost a peer in this round, or on the way into it."""
        return any(worker.broken >= number for worker in self.workers)

    def unreached(self, number: int) -> tuple[str, ...]:
        """Agents of this round that do not answer some worker."""
        return tuple(sorted({one for worker in self.workers if worker.broken >= number for one in worker.unreached}))

    def change(self, number: int) -> Change | None:
        """How the workers came into this round, when all are there."""
        changes = [worker.change for worker in self.workers]
        if not self.complete or any(change.round != number for change in changes):
            return None
        pause, received = max(change.pause for change in changes), sum(change.received for change in changes)
        return Change(number, True, round(pause, 3), max(change.lost for change in changes), received)

    @property
    def left(self) -> bool:
        """Whether all have made their last step."""
        return all(worker.left for worker in self.workers)

    def silent(self, limit: float) -> Worker | None:
        """One that has not answered for so long: stopped, or its host cannot keep up with anything."""
        now = time.monotonic()
        return next((worker for worker in self.workers if now - worker.heard > limit), None)

    def tell(self, kind: str, **fields: Any) -> None:
        for worker in self.workers:
            worker.lines.send(kind, **fields)

    def tell_round(self, number: int, members: list[str], place: int, endpoints: list[str]) -> None:
        """`place` is the agent's; ranks of its workers follow from it, for all pods have as many."""
        for worker in self.workers:
            worker.lines.send(
                "round",
                number=number,
                members=members,
                rank=place * self.expected + worker.local_rank,
                size=len(members) * self.expected,
                endpoint=endpoints[0],
                endpoints=endpoints,
            )

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):  # closed before
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone does not
        self._listener.close()
        for worker in self.workers:
            worker.lines.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(Lines(connection),), name="edl-worker", daemon=True).start()

    def _serve(self, lines: Lines) -> None:
        messages = lines.received()
        hello = next(messages, {})
        if not secrets.compare_digest(str(hello.get("token")), self._token):
            lines.close()
            return
        worker = Worker(lines, int(hello["local_rank"]), int(hello["pid"]))
        with self._lock:
            self._workers[worker.local_rank] = worker
        self._changed()
        for message in messages:
            worker.heard = time.monotonic()
            if message["type"] != "pong":
                self._take(worker, message)
                self._changed()
        with self._lock:
            if self._workers.get(worker.local_rank) is worker:
                del self._workers[worker.local_rank]
        lines.close()
        self._changed()

    def _take(self, worker: Worker, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "ready":
            worker.ready = worker.idle = True
        elif kind == "idle":
            worker.idle = True
        elif kind == "broken":
            worker.broken, worker.unreached = (
                max(worker.broken, message["round"]),
                tuple(message.get("unreached", ())),
            )
        elif kind == "switched":
            worker.switched, worker.idle = message["round"], False
            lost, received = message.get("lost", 0), message["bytes"]
            worker.change = Change(message["round"], True, message["pause"], lost, received)
            log.info(
                "worker %d trains in round %d from step %d; it stopped for %.0f ms, %d bytes of state came",
                *(worker.local_rank, message["round"], message["step"], message["pause"] * 1000, message["bytes"]),
            )
        elif kind == "left":
            worker.left = True

    def _ping(self) -> None:
        while not self._closed.wait(PING):
            self.tell("ping")
