"""The life of one Brain process: open the database, listen, serve until told to go.

A database that does not answer at the start is waited for: calls get 503 meanwhile, and trainers use their own rules.
"""

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable

from .database import Database, UnavailableError
from .policy.settings import Settings
from .server import Brain
from .store import Store

log = logging.getLogger(__name__)

RETRY = 1.0


async def serve(
    database: Database,
    key: bytes,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    settings: Settings,
    ready: Callable[[str], None],
) -> None:
    """`ready` is told the address once calls are answered."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    store = Store(database)
    runner = await Brain(store, key, settings=settings).serve(host, port, tls)
    opening = asyncio.create_task(_open(store))
    try:
        address = runner.addresses[0]
        ready(f"{'https' if tls else 'http'}://{address[0]}:{address[1]}")
        await stop.wait()
    finally:
        opening.cancel()
        await runner.cleanup()
        await store.close()


async def _open(store: Store) -> None:
    """The tables are there from here on; the lessons are read before the first question, which is then quick."""
    while True:
        try:
            await store.open()
            library = await store.learn()
            log.info("%d past jobs are known", len(library))
            return
        except UnavailableError as error:
            log.warning("the database does not answer: %s", error)
            await asyncio.sleep(RETRY)
