"""The life of one parameter server process: listen, take a slot, serve, and go when that harms nobody.

The slot says which process is the present holder of its place; the master says which shard it is. A process whose slot
another one has taken ends itself. One that is asked to go stays until the master has taken it out of the layout, or
until its grace is over.
"""

import logging
import threading
import time
import uuid

from .. import usage
from ..environment import Environment
from ..rpc import Server, listen
from ..service import ServiceClient, ServiceDownError, ServiceRefusalError, Slot, patiently
from ..signals import when_asked_to_go
from .server import ParameterServer

log = logging.getLogger(__name__)

GRACE = 25.0
ROLE = "pserver"
ENDED = ("succeeded", "failed")  # phases, in lower case


def run(env: Environment, *, grace: float = GRACE) -> int:
    """Serves until a signal; returns the exit code."""
    env.require("namespace", "job", "token", "service_url")
    if not env.checkpoints:
        log.warning(
            "checkpoints are in %s, which may go with this pod; give the job a mountPath", env.checkpoint_folder
        )
    service = ServiceClient(env.service_url, env.namespace, env.job, env.token, ca=env.service_ca)
    parameters = ParameterServer(env.checkpoint_folder)
    listener = listen(env.pod_ip, env.pserver_port)
    server = Server(parameters, env.token, listener)
    server.start()
    leaving = threading.Event()
    when_asked_to_go(leaving.set)
    holder, role = f"{env.pod}/{uuid.uuid4().hex[:12]}", env.role or ROLE
    watch = _Watch(service, parameters, holder, env.address_of(listener), env.index, role)
    threading.Thread(target=watch.run, name="watch", daemon=True).start()
    usage.tell_always(service, env.pod, env.usage_seconds)
    while not leaving.wait(0.5) and not watch.fenced.is_set():
        pass
    if watch.fenced.is_set():
        log.error("another process has taken this slot; this one ends")
        return 1
    parameters.drain()
    log.info("asked to go; waiting for the master to take this shard out")
    if not parameters.released.wait(grace):
        log.warning("not released within %.0f s", grace)
    server.close()
    return 143


class _Watch:
    """Takes a slot, then follows the job: to notice that the slot is another's, or that the job is over."""

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
        slot = self._claim()
        log.info("holding slot %s at %s", slot.fence, self._address)
        revision = ""
        while True:
            try:
                view = self._service.job(revision, wait=20.0)
            except ServiceDownError as error:
                log.info("job service: %s", error)
                time.sleep(1.0)
                continue
            except ServiceRefusalError as error:
                log.warning("the job is gone: %s", error)
                self._parameters.released.set()
                time.sleep(5.0)
                continue
            if view is not None:
                revision = view["revision"]
                self._look(view, slot)

    def _look(self, view: dict[str, object], slot: Slot) -> None:
        roles = view["roles"]
        assert isinstance(roles, dict)
        holder = roles.get(self._role, {}).get("slots", {}).get(str(slot.index), {}).get("holder", self._holder)
        if holder != self._holder:
            self.fenced.set()
            self._parameters.released.set()  # nobody waits for a shard that another has
        if str(view["phase"]).lower() in ENDED:
            self._parameters.released.set()

    def _claim(self) -> Slot:
        while True:
            try:
                return patiently(
                    lambda: self._service.claim(self._role, self._index, self._holder, self._address), "claim of a slot"
                )
            except ServiceRefusalError as error:
                log.info("no slot yet: %s", error)
                time.sleep(0.5)
