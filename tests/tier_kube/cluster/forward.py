"""Makes the API server of a cluster reachable from outside its namespaces, as a port on the machine's loopback.

A socket belongs to the namespace in which it was made, so one process can listen outside and connect inside. Runs as a
process of its own: `python -m tests.tier_kube.cluster.forward PORT NAMESPACE HOST:PORT`.
"""

import asyncio
import socket
import sys
from pathlib import Path

from tests.tier_kube.cluster.network import entered


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def forward(listener: socket.socket, host: str, port: int) -> None:
    """Serve `listener` for ever; connections to the target are made in the namespace of the calling thread."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        for each in (writer, inner_writer):
            each.close()

    async with await asyncio.start_server(serve, sock=listener) as server:
        await server.serve_forever()


def main(port: str, namespace: str, target: str) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind(("127.0.0.1", int(port)))
    host, _, inner_port = target.rpartition(":")
    with entered(Path(namespace)):
        asyncio.run(forward(listener, host, int(inner_port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
