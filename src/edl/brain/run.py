"""The life of one Brain process: open the database, listen, serve until told to go.

A database that does not answer at the start is waited for: calls get 503 meanwhile, and trainers use their own rules.
Another key or certificate in the files that it was given is used within a minute.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Callable

from .credentials import Credentials
from .database import Database, UnavailableError
from .policy.settings import Settings
from .server import Brain
from .store import Store

log = logging.getLogger(__name__)

RETRY = 1.0
LOOK = 30.0


async def serve(
    database: Database,
    credentials: Credentials,
    *,
    host: str,
    port: int,
    settings: Settings,
    ready: Callable[[str], None],
) -> None:
    """`ready` is told the address once calls are answered."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    store = Store(database)
    brain = Brain(store, credentials.key, settings=settings)
    runner = await brain.serve(host, port, credentials.tls)
    beside = [asyncio.create_task(_open(store)), asyncio.create_task(_follow(credentials, brain))]
    try:
        at, port = runner.addresses[0][:2]
        ready(f"{'https' if credentials.tls else 'http'}://{f'[{at}]' if ':' in at else at}:{port}")
        await stop.wait()
    finally:
        for task in beside:
            task.cancel()
        await runner.cleanup()
        await store.close()


async def _open(store: Store) -> None:
    """The tables are there from here on; the lessons are read before the first question, which is then quick. They
    stay, and no call shall wait until all of them were searched for garbage."""
    while True:
        try:
            await store.open()
            library = await store.learn()
            gc.freeze()
            log.info("%d past jobs are known", len(library))
            return
        except UnavailableError as error:
            log.warning("the database does not answer: %s", error)
            await asyncio.sleep(RETRY)


async def _follow(credentials: Credentials, brain: Brain) -> None:
    while True:
        await asyncio.sleep(LOOK)
        if credentials.look():
            brain.key = credentials.key
