"""Paddle's parameter servers as the job service knows them: the process in each slot, its epoch and its address.

Paddle needs the whole list of addresses, in the same order, in every process before it starts; pods learn theirs late
and in any order. And a lost Paddle server takes its parameters with it, which Paddle does not notice. So the first
trainer records the servers that the model was initialised on; a different list later means that parameters were lost.
"""

import logging
import socket
import time
from collections.abc import Callable

import msgspec

from edl.protocol.job_state import JobView
from edl.protocol.slots import Slot
from edl.runtime.service_client import Service, ServiceDownError, patiently
from edl.runtime.wire import split_address

log = logging.getLogger(__name__)

KEY = "paddle"
PSERVER, TRAINER = "pserver", "trainer"
POLL = 0.3
CHECK_INTERVAL = 2.0
CONNECT_TIMEOUT = 5.0


class LostServerError(Exception):
    """A parameter server is gone, and the part of the model that it held."""


class Server(msgspec.Struct, frozen=True, array_like=True):
    """`epoch` counts the processes that have held this slot."""

    index: int
    epoch: int
    address: str


Servers = tuple[Server, ...]


def servers_of(job: JobView | None, count: int) -> Servers | None:
    """All servers in order, from the job service's view of the job; None while one is missing."""
    slots = [job.slot(PSERVER, index) if job else None for index in range(count)]
    found = [slot for slot in slots if slot is not None and slot.address and not slot.gone]
    if len(found) < count:
        return None
    return tuple(Server(index, slot.epoch, slot.address) for index, slot in enumerate(found))


def await_servers(service: Service, count: int, *, pause: Callable[[float], None] = time.sleep) -> Servers:
    logged = False
    while True:
        try:
            found = servers_of(service.job(), count)
        except ServiceDownError as error:
            log.info("job service: %s", error)
            found = None
        if found is not None:
            return found
        if not logged:
            log.info("waiting for %d parameter servers", count)
            logged = True
        pause(POLL)


def model_servers(service: Service) -> Servers | None:
    """The servers that the model was initialised on; None before that."""
    found = patiently(lambda: service.get(KEY), "reading where the model is")
    return None if found is None else msgspec.json.decode(found[0], type=Servers)


def record_model_servers(service: Service, servers: Servers, slot: Slot) -> None:
    """Records them durably. Only the first trainer does so, once."""
    service.put(KEY, msgspec.json.encode(servers), version=0, slot=slot, stop=lambda: False)


def check_unchanged(initialised: Servers | None, present: Servers) -> None:
    """Raises LostServerError if the model was initialised on other processes than the present ones."""
    if initialised is None:
        return
    lost = [old.index for old, new in zip(initialised, present, strict=False) if old.epoch != new.epoch]
    if lost or len(initialised) != len(present):
        raise LostServerError(
            f"parameter server {', '.join(map(str, lost)) or len(present)} was lost with its part of the model, which "
            "Paddle cannot restore while the job runs; start the job again, from what its script has saved"
        )


def await_loss(service: Service, servers: Servers, *, pause: Callable[[float], None] = time.sleep) -> LostServerError:
    """Returns when another process has the slot of one of them. Runs beside the trainer, which may hang for ever in a
    call to the lost server."""
    while True:
        pause(CHECK_INTERVAL)
        try:
            present = servers_of(service.job(), len(servers))
            check_unchanged(servers, present or servers)
        except ServiceDownError as error:
            log.info("job service: %s", error)
        except LostServerError as error:
            return error


def check_reachable(servers: Servers) -> None:
    """Raises LostServerError if one does not listen. Paddle itself goes on for seconds without updating parameters."""
    for server in servers:
        try:
            socket.create_connection(split_address(server.address), CONNECT_TIMEOUT).close()
        except OSError as error:
            raise LostServerError(f"parameter server {server.index} at {server.address}: {error}") from error
