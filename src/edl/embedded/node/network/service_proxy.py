"""Userspace service proxy: listens on each service address and forwards connections to ready endpoints in turn.

Kubernetes does this in the kernel of every node; on loopback one small forwarder does. Endpoints are chosen per
connection. Services without an address of their own (headless) need none of this: their names lead to the pods.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterable, Mapping, Sequence

from edl.serving.acceptor import Acceptor, bind

log = logging.getLogger(__name__)

Address = tuple[str, int]
_CHUNK = 1 << 16


class Forwarder:
    """One process forwards for all pods of the machine: an address that is taken is served by another of the same
    kind.
    """

    def __init__(self) -> None:
        self._targets: dict[Address, Sequence[Address]] = {}
        self._turns: dict[Address, int] = {}
        self._servers: dict[Address, Acceptor] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._forbidden: set[Address] = set()

    @property
    def listening(self) -> Iterable[Address]:
        return self._servers.keys()

    async def reconcile(self, wanted: Mapping[Address, Sequence[Address]]) -> bool:
        """Listen exactly where wanted; False if some address could not be had and should be tried again."""
        self._targets = dict(wanted)
        for service in self._servers.keys() - wanted.keys():
            self._servers.pop(service).close()
        complete = True
        for service in wanted.keys() - self._servers.keys():
            complete &= await self._listen(service)
        return complete

    async def _listen(self, service: Address) -> bool:
        address, port = service
        try:
            sockets = await bind(address, port)
            self._servers[service] = Acceptor(sockets, lambda connection, _: self._accept(service, connection))
        except PermissionError:
            if service not in self._forbidden:
                self._forbidden.add(service)
                log.warning(
                    "the service port %s:%d needs root here (ports below 1024): use a higher one", address, port
                )
            return True
        except OSError as error:
            log.debug("%s:%d is not ours to listen on: %s", address, port, error)
            return False
        return True

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, service: Address, connection: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(service, connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _carry(self, service: Address, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        with contextlib.closing(writer), contextlib.suppress(OSError):
            connected = await self._connect(service)
            if connected is None:
                return
            far_reader, far_writer = connected
            with contextlib.closing(far_writer):
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    async def _connect(self, service: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The next endpoint in turn, or the one after it if that refuses."""
        targets = self._targets.get(service, ())
        for _ in targets:
            turn = self._turns[service] = self._turns.get(service, -1) + 1
            address, port = targets[turn % len(targets)]
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(address, port)
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
