"""Requests to an API server in the same process: no socket, the answer decoded."""

import json
from typing import Any

from edl.embedded.server import ADMIN, Server
from edl.embedded.server.api import Request
from edl.embedded.server.storage.watch import Watch
from edl.embedded.server.verbs.call import Response, User, parse_query


async def ask(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    *,
    media: str = "application/json",
    accept: str = "application/json",
    user: User = ADMIN,
    agent: str = "test/1",
) -> tuple[int, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    where, _, query = path.partition("?")
    result = await server.api.handle(Request(method, where, parse_query(query), data, media, accept, user, agent))
    assert isinstance(result, Response)
    try:
        return result.code, json.loads(result.body)
    except ValueError:
        return result.code, result.body


async def watch(server: Server, path: str) -> tuple[Watch, list[dict[str, Any]]]:
    """A watch that has begun, and the list that its events go into."""
    where, _, query = path.partition("?")
    found = await server.api.handle(Request("GET", where, parse_query(f"watch=true&{query}"), user=ADMIN))
    assert isinstance(found, Watch)
    events: list[dict[str, Any]] = []
    found.start(lambda chunk: events.extend(json.loads(line) for line in chunk.splitlines()))
    return found, events
