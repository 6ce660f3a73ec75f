"""Paddle's parameter servers as the job service knows them: which process holds which place, since when, and where.

Paddle wants the whole list of addresses in every process before it starts, the same order everywhere; pods learn theirs
late and in any order. And a Paddle server that is lost takes its parameters with it, which Paddle does not notice. So
the first trainer writes down which processes the model was put into; from then on a list with another one is a loss.
"""

import logging
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..environment import Environment
from ..service import Service, ServiceDownError, ServiceRefusalError, Slot, patiently
from ..wire import split_address

log = logging.getLogger(__name__)

KEY = "paddle"
PSERVER, TRAINER = "pserver", "trainer"
POLL = 0.3
LOOK = 2.0
CONNECT = 5.0


class LostServerError(Exception):
    """A parameter server is gone, and the part of the model that it held."""


class Server(msgspec.Struct, frozen=True, array_like=True):
    """`epoch` counts the processes that have held this place."""

    index: int
    epoch: int
    address: str


Servers = tuple[Server, ...]


def servers_of(job: Mapping[str, Any] | None, count: int) -> Servers | None:
    """All of them in their order, out of the job service's view; None while one is missing."""
    slots = (job or {}).get("roles", {}).get(PSERVER, {}).get("slots", {})
    found = [slots.get(str(index)) for index in range(count)]
    if any(slot is None or slot["gone"] or not slot["address"] for slot in found):
        return None
    return tuple(Server(index, slot["epoch"], slot["address"]) for index, slot in enumerate(found))


def claim(service: Service, env: Environment, role: str, index: int | None, address: str = "") -> Slot:
    """The place that the service gives to this process; it may take until the last holder's pod is gone."""
    holder = f"{env.pod}/{uuid.uuid4().hex[:12]}"
    while True:
        try:
            return patiently(lambda: service.claim(role, index, holder, address), f"claim of a {role}'s slot")
        except ServiceRefusalError as error:
            log.info("no slot yet: %s", error)
            time.sleep(POLL)


def await_servers(service: Service, count: int, *, pause: Callable[[float], None] = time.sleep) -> Servers:
    told = False
    while True:
        try:
            found = servers_of(service.job(), count)
        except ServiceDownError as error:
            log.info("job service: %s", error)
            found = None
        if found is not None:
            return found
        if not told:
            log.info("waiting for %d parameter servers", count)
            told = True
        pause(POLL)


def model_servers(service: Service) -> Servers | None:
    """Those that the model was put into; None before that."""
    found = patiently(lambda: service.get(KEY), "reading where the model is")
    return None if found is None else msgspec.json.decode(found[0], type=Servers)


def note_model(service: Service, servers: Servers, slot: Slot) -> None:
    """Durable when it returns. Only the first trainer may say it, and only once."""
    service.put(KEY, msgspec.json.encode(servers), version=0, slot=slot, stop=lambda: False)


def check_kept(begun: Servers | None, present: Servers) -> None:
    """Raises if the model was put into other processes than those that are there now."""
    if begun is None:
        return
    lost = [old.index for old, new in zip(begun, present, strict=False) if old.epoch != new.epoch]
    if lost or len(begun) != len(present):
        raise LostServerError(
            f"parameter server {', '.join(map(str, lost)) or len(present)} was lost with its part of the model, which "
            "Paddle cannot restore while the job runs; start the job again, from what its script has saved"
        )


def await_loss(service: Service, servers: Servers, *, pause: Callable[[float], None] = time.sleep) -> LostServerError:
    """Comes back when another process has the place of one of them. A trainer may hang for ever in a call to the lost
    one, so somebody else in its process has to look."""
    while True:
        pause(LOOK)
        try:
            present = servers_of(service.job(), len(servers))
            check_kept(servers, present or servers)
        except ServiceDownError as error:
            log.info("job service: %s", error)
        except LostServerError as error:
            return error


def check_reachable(servers: Servers) -> None:
    """Raises if one does not listen. Paddle itself goes on for seconds after that, with parameters that stand still."""
    for server in servers:
        try:
            socket.create_connection(split_address(server.address), CONNECT).close()
        except OSError as error:
            raise LostServerError(f"parameter server {server.index} at {server.address}: {error}") from error
