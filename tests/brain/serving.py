"""A Brain that listens on loopback, for tests that speak to it over HTTP."""

import contextlib
import io
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec

from edl.brain.database import Database
from edl.brain.quotas import Quota
from edl.brain.server import Brain
from edl.brain.store import Store
from edl.brain.tokens import mint

KEY = b"a key for tests only"


class Caller:
    """Speaks for one subject; answers are (status, body)."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session, self.url, self.token = session, url, token

    async def __call__(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        sent = None if data is None else io.BytesIO(data)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with self._session.request(method, self.url + path, data=sent, headers=headers) as answer:
            return answer.status, msgspec.json.decode(await answer.read())

    def as_(self, token: str) -> "Caller":
        return Caller(self._session, self.url, token)


@contextlib.asynccontextmanager
async def brain(
    database: Database,
    *,
    clock: Callable[[], float],
    opened: bool = True,
    quota: Quota = Quota(),  # noqa: B008 - it is immutable
    share_history: bool = False,
) -> AsyncIterator[Caller]:
    store = Store(database, quota)
    if opened:
        await store.open()
    served = Brain(store, KEY, clock=clock, quota=quota, share_history=share_history)
    runner = await served.serve("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            yield Caller(session, f"http://127.0.0.1:{runner.addresses[0][1]}", mint(KEY, "*"))
    finally:
        await runner.cleanup()
        await store.close()
