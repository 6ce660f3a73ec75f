"""Transport for `edl.kube` clients in the same process: calls the handlers without a socket (simulations, tests)."""

import asyncio
from collections.abc import AsyncIterator

from edl.embedded.server.api import Api, NodeStream, Request
from edl.embedded.server.storage.watch import Watch
from edl.embedded.server.verbs.call import ADMIN, Query, User
from edl.kube.rest import transport


def direct_transport(api: Api, *, user: User = ADMIN, user_agent: str = "edl") -> transport.DirectTransport:
    """A transport for an `edl.kube` client in the same process. Logs, exec and port-forward need a connection."""

    async def handle(request: transport.Request) -> transport.Response:
        query = Query({name: [value] for name, value in request.query.items()})
        result = await api.handle(
            Request(
                request.method,
                request.path,
                query,
                request.body or b"",
                request.content_type,
                request.accept,
                user,
                user_agent,
            )
        )
        if isinstance(result, Watch):
            return transport.Response(200, chunks=_chunks(result))
        if isinstance(result, NodeStream):
            raise NotImplementedError("logs, exec, attach and port-forward need a connection")
        return transport.Response(result.code, result.body, {"Content-Type": result.content_type, **result.headers})

    return transport.DirectTransport(handle)


async def _chunks(watch: Watch) -> AsyncIterator[bytes]:
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()
    watch.closed.add_done_callback(lambda _done: queue.put_nowait(None))
    watch.start(queue.put_nowait)
    try:
        while (chunk := await queue.get()) is not None:
            yield chunk
    finally:
        watch.stop()
