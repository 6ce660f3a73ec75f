"""Ports of servers that come back where they were, because clients keep their address: pods that run on while the
operator starts anew, a copied kubeconfig, an open page.

The kernel gives the ports of one range to whoever connects somewhere or asks for any. On a busy machine one of them is
soon taken after its server ended, and a closed connection keeps it for a minute more. So a lasting port lies outside.
"""

import logging
import random
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web

log = logging.getLogger(__name__)

LASTING = range(20_000, 30_000)  # below where Linux begins by default, and below NodePorts
TRIES = 50
_KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


async def serve_again(serve: Callable[[int], Awaitable[web.AppRunner]], host: str, known: int) -> web.AppRunner:
    """At the known port (0: none), else at one that can be had again, else at any."""
    for port in _candidates(host, known):
        try:
            return await serve(port)
        except OSError as error:
            log.warning("port %d cannot be had, clients that look there will not find us: %s", port, error)
    return await serve(0)


def _candidates(host: str, known: int) -> Iterator[int]:
    if known:
        yield known
    if port := lasting_port(host):
        yield port


def port_in(file: Path) -> int:
    """Of the address that a server left in a file; 0 if there is none."""
    try:
        return urlsplit(file.read_text().strip()).port or 0
    except (OSError, ValueError):
        return 0


def lasting_port(host: str) -> int:
    """One that is free now and that nobody gets by chance; 0 if there is none."""
    candidates = lasting_ports(_kernel_range())
    chosen = random.sample(candidates, min(TRIES, len(candidates)))
    return next((port for port in chosen if is_free(host, port)), 0)


def lasting_ports(kernel: Sequence[int]) -> Sequence[int]:
    """Those that lie outside of what the kernel gives to anybody."""
    return [port for port in LASTING if not kernel[0] <= port <= kernel[1]]


def _kernel_range() -> tuple[int, int]:
    try:
        first, last = _KERNEL_RANGE.read_text().split()
        return int(first), int(last)
    except (OSError, ValueError):  # another system: those that we know use the upper quarter
        return 49_152, 65_535


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
