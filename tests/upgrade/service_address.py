"""One address for the job service of several operators, as a Service gives it: connections go to the one that leads."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class ServiceAddress:
    def __init__(self, port: int) -> None:
        self.port = port
        self.leader = 0
        """The port of the operator that connections go to."""

    async def forward(self, ours: asyncio.StreamReader, theirs: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(theirs):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.leader)
            with contextlib.closing(writer):
                ways = [asyncio.create_task(_pump(ours, writer)), asyncio.create_task(_pump(reader, theirs))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(1 << 16):
        writer.write(part)
        await writer.drain()


@contextlib.asynccontextmanager
async def service_address() -> AsyncIterator[ServiceAddress]:
    made = ServiceAddress(0)
    server = await asyncio.start_server(made.forward, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
