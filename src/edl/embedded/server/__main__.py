"""Runs the API server as a process of its own, for tests and benchmarks; people use `edl up`.

`python -m edl.embedded.server DIRECTORY PORT TOKEN` keeps store, certificates and a kubeconfig in the directory and
prints the URL when it serves; port 0 takes a free one.
"""

import asyncio
import signal
import sys
from pathlib import Path

from edl.embedded.certificates import authority_at, write_private
from edl.embedded.kubeconfig import kubeconfig
from edl.embedded.server import ADMIN, Server
from edl.embedded.streaming.streams import NODE_CLIENT


async def main(directory: Path, port: int, token: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    authority = authority_at(directory)
    tls = authority.server_context(authority.issue("apiserver", hosts=["127.0.0.1", "localhost"]))
    async with Server(
        directory / "store.db",
        port=port,
        tls=tls,
        tokens={token: ADMIN},
        root_ca=authority.pair.certificate.decode(),
        node_tls=authority.client_context(authority.issue(NODE_CLIENT, organizations=["system:masters"])),
    ) as server:
        write_private(directory / "kubeconfig", kubeconfig(server.url, authority.pair.certificate, token))
        print(server.url, flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
