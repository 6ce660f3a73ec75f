"""Runs one Brain process: opens the database, listens, serves until SIGTERM or SIGINT.

While the database does not answer at the start, calls get 503 and trainers use their own rules. Replaced key and
certificate files take effect within a minute.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Callable

from edl.brain.credentials import Credentials
from edl.brain.database import Database, UnavailableError
from edl.brain.history_store import HistoryBounds, HistoryStore
from edl.brain.log_store import LogBounds, LogStore
from edl.brain.policy.settings import Settings
from edl.brain.quotas import Quota
from edl.brain.server import Brain
from edl.brain.store import Store

log = logging.getLogger(__name__)

RETRY = 1.0
RELOAD_INTERVAL = 30.0


async def serve(
    database: Database,
    credentials: Credentials,
    *,
    host: str,
    port: int,
    settings: Settings,
    quota: Quota,
    share_history: bool,
    ready: Callable[[str], None],
    history: HistoryBounds = HistoryBounds(),  # noqa: B008 - it is immutable
    logs: LogBounds = LogBounds(),  # noqa: B008 - it is immutable
) -> None:
    """Calls `ready` with the address once calls are answered: after the first try to open the database, whether it
    succeeded or not, so that a caller who waits for the address is not refused for being quick."""
    stop = _stop_signal()
    store = Store(database, quota)
    brain = Brain(
        store,
        credentials.key,
        settings=settings,
        quota=quota,
        share_history=share_history,
        history=HistoryStore(database, history),
        logs=LogStore(database, logs),
    )
    runner = await brain.serve(host, port, credentials.tls)
    tried = asyncio.Event()
    work = (_open(store, tried), _follow(credentials, brain), tried.wait(), stop.wait())
    background = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.wait(background[2:], return_when=asyncio.FIRST_COMPLETED)
        at, port = runner.addresses[0][:2]
        ready(f"{'https' if credentials.tls else 'http'}://{f'[{at}]' if ':' in at else at}:{port}")
        await stop.wait()
    finally:
        for task in background:
            task.cancel()
        await runner.cleanup()
        await store.close()


def _stop_signal() -> asyncio.Event:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _open(store: Store, tried: asyncio.Event) -> None:
    """Opens the database and reads the summaries, so that the first call is quick. They are permanent: frozen, they do
    not slow down garbage collection during calls."""
    while True:
        try:
            await store.open()
            past = await store.past_jobs()
            gc.freeze()
            log.info("%d past jobs are known", len(past))
            tried.set()
            return
        except UnavailableError as error:
            log.warning("the database does not answer: %s", error)
            tried.set()
            await asyncio.sleep(RETRY)


async def _follow(credentials: Credentials, brain: Brain) -> None:
    while True:
        await asyncio.sleep(RELOAD_INTERVAL)
        if credentials.reload():
            brain.key = credentials.key
