"""The life of one master process: listen, take the slot, load what the last master left, serve until told to go.

It takes the slot whoever held it: the older process is fenced off by its epoch and ends itself. When all passes are
done it stays, so that trainers which start late are told so; the operator ends it with the job.
"""

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable

from ..environment import MASTER_PORT, Environment
from ..rpc import Server, listen
from ..service import Service, ServiceClient, patiently
from ..signals import when_asked_to_go
from ..wire import split_address
from . import watch
from .board import Board
from .desk import Desk
from .fleet import Fleet
from .journal import Journal, load
from .keeper import Keeper

log = logging.getLogger(__name__)

ROLE = "master"


def run(env: Environment) -> int:
    """Serves until a signal, or until another master takes over; returns the exit code."""
    env.require("namespace", "job", "token", "service_url")
    over = threading.Event()
    when_asked_to_go(over.set)
    service = ServiceClient(env.service_url, env.namespace, env.job, env.token, ca=env.service_ca)
    master = Master(env, service, on_fenced=lambda _: over.set())
    while not over.wait(0.5):
        pass
    master.close()
    return 1 if master.fenced else 143


class Master:
    """All parts of a master, running, in one process."""

    def __init__(self, env: Environment, service: Service, *, on_fenced: Callable[[str], None]) -> None:
        self.fenced = ""
        self._on_fenced = on_fenced
        listener = listen(env.pod_ip, split_address(env.master)[1] if env.master else MASTER_PORT)
        address, holder = env.address_of(listener), f"{env.pod}/{uuid.uuid4().hex[:12]}"
        slot = patiently(lambda: service.claim(ROLE, 0, holder, address), "claim of the master's slot")
        progress, version = load(service)
        self.board = self._board = Board(progress, epoch=slot.epoch, term=env.task_lease)
        self._server = Server(Desk(self._board), env.token, listener)
        self._fleet = Fleet(env.token, slot.epoch)
        journal = Journal(self._board, service, slot, version, on_fenced=self._fence)
        keeper = Keeper(self._board, self._fleet, interval=env.checkpoint_seconds)
        _start("journal", journal.run)
        _start("keeper", keeper.run)
        _start("follow", lambda: watch.follow(self._board, service, self._fence))
        _start("tell", lambda: watch.tell(self._board, service))
        self._server.start()
        queue = self._board.queue
        log.info("master of epoch %d at %s: pass %d, %d done", slot.epoch, address, queue.pass_index, queue.done.count)

    def close(self, patience: float = 5.0) -> None:
        """Finishes the write that is under way, lets servers that only wait for us go, and ends."""
        until = time.monotonic() + patience
        with self._board.changed:
            while self._board.durable < self._board.queue.version and not self.fenced and time.monotonic() < until:
                self._board.changed.wait(0.1)
            release = self._board.view.members if self._board.ended and not self.fenced else ()
        self._fleet.release(release)
        self._board.stop()
        self._server.close()
        self._fleet.close()

    def _fence(self, reason: str) -> None:
        log.error("this master ends: %s", reason)
        self.fenced = reason
        self._board.stop()
        self._on_fenced(reason)


def _start(name: str, work: Callable[[], None]) -> None:
    """A part that fails takes the process with it: the next one starts from what is durable."""

    def guarded() -> None:
        try:
            work()
        except BaseException:
            log.critical("the master's %s failed", name, exc_info=True)
            os._exit(70)

    threading.Thread(target=guarded, name=name, daemon=True).start()
