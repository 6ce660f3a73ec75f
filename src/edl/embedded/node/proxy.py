"""Service addresses that work: a listener on each, and connections carried to the ready endpoints in turn.

Kubernetes does this in the kernel of every node; on loopback one small forwarder does. Endpoints are chosen per
connection. Services without an address of their own (headless) need none of this: their names lead to the pods.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence

log = logging.getLogger(__name__)

Target = tuple[str, int]
_CHUNK = 1 << 16


class Forwarder:
    """One process forwards for all pods of the machine: an address that is taken is served by another of the same
    kind.
    """

    def __init__(self) -> None:
        self._targets: dict[Target, Sequence[Target]] = {}
        self._turns: dict[Target, int] = {}
        self._servers: dict[Target, asyncio.Server] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._forbidden: set[Target] = set()

    @property
    def places(self) -> Iterable[Target]:
        return self._servers.keys()

    async def reconcile(self, wanted: Mapping[Target, Sequence[Target]]) -> bool:
        """Listen exactly where wanted; False if some address could not be had and should be tried again."""
        self._targets = dict(wanted)
        for place in self._servers.keys() - wanted.keys():
            self._servers.pop(place).close()
        complete = True
        for place in wanted.keys() - self._servers.keys():
            complete &= await self._listen(place)
        return complete

    async def _listen(self, place: Target) -> bool:
        address, port = place
        try:
            self._servers[place] = await asyncio.start_server(lambda r, w: self._accept(place, r, w), address, port)
        except PermissionError:
            if place not in self._forbidden:
                self._forbidden.add(place)
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

    def _accept(self, place: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(place, reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _carry(self, place: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            connected = await self._connect(place)
            if connected is None:
                return
            far_reader, far_writer = connected
            with contextlib.closing(far_writer):
                await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    async def _connect(self, place: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The next endpoint in turn, or the one after it if that refuses."""
        targets = self._targets.get(place, ())
        for _ in targets:
            turn = self._turns[place] = self._turns.get(place, -1) + 1
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
