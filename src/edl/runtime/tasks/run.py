"""Runs one master process: listens, claims the slot, loads the progress of the last master, serves until terminated.

It claims the slot whoever held it: the older process is fenced off by its epoch and exits. When all passes are done it
stays for trainers that start late; the operator terminates it with the job.
"""

import logging
import threading
import time
from collections.abc import Callable

from edl.runtime.environment import MASTER_PORT, Environment
from edl.runtime.logs.own_output import exit_now
from edl.runtime.rpc import Server, listen
from edl.runtime.service_client import Service, ServiceClient, patiently
from edl.runtime.signals import on_termination
from edl.runtime.slots import new_holder
from edl.runtime.tasks import job_watch
from edl.runtime.tasks.checkpoint_keeper import CheckpointKeeper
from edl.runtime.tasks.journal import Journal, load
from edl.runtime.tasks.requests import TrainerRequests
from edl.runtime.tasks.server_connections import ServerConnections
from edl.runtime.tasks.shared_state import SharedState
from edl.runtime.wire import split_address

log = logging.getLogger(__name__)

ROLE = "master"


def run(env: Environment) -> int:
    """Serves until a signal, or until another master takes over; returns the exit code."""
    env.require("namespace", "job", "token", "service_url")
    over = threading.Event()
    on_termination(over.set)
    service = ServiceClient.of(env)
    master = Master(env, service, on_fenced=lambda _: over.set())
    while not over.wait(0.5):
        pass
    master.close()
    return 1 if master.fenced else 143


class Master:
    """All parts of a running master in one process."""

    def __init__(self, env: Environment, service: Service, *, on_fenced: Callable[[str], None]) -> None:
        self.fenced = ""
        self._on_fenced = on_fenced
        listener = listen(env.pod_ip, split_address(env.master)[1] if env.master else MASTER_PORT)
        address, holder = env.address_of(listener), new_holder(env)
        slot = patiently(lambda: service.claim(ROLE, 0, holder, address), "claim of the master's slot")
        progress, version = load(service)
        self.shared = self._shared = SharedState(progress, epoch=slot.epoch, term=env.task_lease)
        self._server = Server(TrainerRequests(self._shared), env.token, listener)
        self._servers = ServerConnections(env.token, slot.epoch)
        journal = Journal(self._shared, service, slot, version, on_fenced=self._fence)
        keeper = CheckpointKeeper(
            self._shared, self._servers, interval=env.checkpoint_seconds, restored=bool(env.restored_from)
        )
        _start("journal", journal.run)
        _start("keeper", keeper.run)
        _start("follow", lambda: job_watch.follow(self._shared, service, self._fence))
        _start("report", lambda: job_watch.report_progress(self._shared, service))
        self._server.start()
        queue = self._shared.queue
        log.info("master of epoch %d at %s: pass %d, %d done", slot.epoch, address, queue.pass_index, queue.done.count)

    def close(self, patience: float = 5.0) -> None:
        """Finishes the write under way, releases parameter servers of a job that has ended, and stops."""
        until = time.monotonic() + patience
        with self._shared.changed:
            while self._shared.durable < self._shared.queue.version and not self.fenced and time.monotonic() < until:
                self._shared.changed.wait(0.1)
            release = self._shared.observed.members if self._shared.ended and not self.fenced else ()
        self._servers.release(release)
        self._shared.stop()
        self._server.close()
        self._servers.close()

    def _fence(self, reason: str) -> None:
        log.error("this master ends: %s", reason)
        self.fenced = reason
        self._shared.stop()
        self._on_fenced(reason)


def _start(name: str, work: Callable[[], None]) -> None:
    """Runs a part in a thread; its failure ends the process, and the next one starts from what is durable."""

    def guarded() -> None:
        try:
            work()
        except BaseException:
            log.critical("the master's %s failed", name, exc_info=True)
            exit_now(70)

    threading.Thread(target=guarded, name=name, daemon=True).start()
