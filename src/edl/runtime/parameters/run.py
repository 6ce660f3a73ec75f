"""Runs one parameter server process: listens, claims a slot, serves, and exits when its shard is not needed any more.

The master decides which shard the process is. A process whose slot another one has claimed exits. On SIGTERM it stays
until the master has removed it from the layout, or until its grace is over.
"""

import logging
import socket
import threading
import time

from edl.protocol.job_state import JobView
from edl.protocol.slots import Slot
from edl.runtime import usage
from edl.runtime.environment import Environment
from edl.runtime.parameters.server import ParameterServer
from edl.runtime.rpc import Server, listen, listen_if_free
from edl.runtime.service_client import ServiceClient, ServiceDownError, ServiceRefusalError
from edl.runtime.signals import on_termination
from edl.runtime.slots import claim_slot, new_holder

log = logging.getLogger(__name__)

GRACE = 25.0
ROLE = "pserver"
ENDED = ("succeeded", "failed")  # phases, in lower case


def run(env: Environment, *, grace: float = GRACE) -> int:
    """Serves until a signal; returns the exit code."""
    env.require("namespace", "job", "token", "service_url")
    if not env.checkpoints:
        log.warning(
            "checkpoints are in %s, which may go with this pod; only a second parameter server has copies; "
            "give the job a mountPath",
            env.checkpoint_folder,
        )
    service = ServiceClient.of(env)
    parameters = ParameterServer(env.checkpoint_folder, env.token)
    listener = listen(env.pod_ip, env.pserver_port)
    servers = [Server(parameters, env.token, one) for one in (listener, *_further_listeners(env))]
    for server in servers:
        server.start()
    leaving = threading.Event()
    on_termination(leaving.set)
    holder, role = new_holder(env), env.role or ROLE
    watch = _Watch(service, parameters, holder, env.address_of(listener), env.index, role)
    threading.Thread(target=watch.run, name="watch", daemon=True).start()
    usage.start_reporting(service, env.pod, env.usage_seconds)
    while not leaving.wait(0.5) and not watch.fenced.is_set():
        pass
    if watch.fenced.is_set():
        log.error("another process has taken this slot; this one ends")
        return 1
    parameters.drain()
    log.info("asked to go; waiting for the master to take this shard out")
    if not parameters.released.wait(grace):
        log.warning("not released within %.0f s", grace)
    for server in servers:
        server.close()
    return 143


def _further_listeners(env: Environment) -> list[socket.socket]:
    """The job's other ports, of its Service. They serve what the first one does; trainers of ours do not use them."""
    ports = range(env.pserver_port + 1, env.pserver_port + env.pserver_ports) if env.pserver_port else ()
    return [listener for port in ports if (listener := listen_if_free(env.pod_ip, port)) is not None]


class _Watch:
    """Claims a slot, then follows the job: to notice that another process has the slot, or that the job has ended."""

    def __init__(
        self,
        service: ServiceClient,
        parameters: ParameterServer,
        holder: str,
        address: str,
        index: int | None,
        role: str,
    ) -> None:
        self._service, self._parameters, self._holder, self._role = service, parameters, holder, role
        self._address, self._index = address, index
        self.fenced = threading.Event()

    def run(self) -> None:
        slot = claim_slot(self._service, self._role, self._index, self._holder, self._address)
        log.info("holding slot %s at %s", slot.fence, self._address)
        revision = ""
        while True:
            try:
                job = self._service.job(revision, wait=20.0)
            except ServiceDownError as error:
                log.info("job service: %s", error)
                time.sleep(1.0)
                continue
            except ServiceRefusalError as error:
                log.warning("the job is gone: %s", error)
                self._parameters.released.set()
                time.sleep(5.0)
                continue
            if job is not None:
                revision = job.revision
                self._check(job, slot)

    def _check(self, job: JobView, slot: Slot) -> None:
        present = job.slot(self._role, slot.index)
        if present is not None and present.holder != self._holder:
            self.fenced.set()
            self._parameters.released.set()  # another process has the shard
        if job.phase.lower() in ENDED:
            self._parameters.released.set()
