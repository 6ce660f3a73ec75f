"""Brain beside a local cluster: on loopback, its history in the cluster's home, where `edl brain` finds it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from edl.brain.keys import key_at
from edl.brain.server import Brain
from edl.brain.sqlite import SqliteDatabase
from edl.brain.store import Store
from edl.operator.settings import BrainSettings


@asynccontextmanager
async def brain(home: Path) -> AsyncIterator[BrainSettings]:
    """Serve Brain; the operator's settings to reach it. `brain.url` in the home is for everybody else."""
    key = await asyncio.to_thread(lambda: key_at(home / "brain.key", create=True))
    store = Store(SqliteDatabase(str(home / "brain.db")))
    await store.open()
    runner = await Brain(store, key).serve("127.0.0.1", 0)
    url, file = f"http://127.0.0.1:{runner.addresses[0][1]}", home / "brain.url"
    await asyncio.to_thread(file.write_text, url)
    try:
        yield BrainSettings(url, key)  # nodes on this machine keep the logs of pods themselves
    finally:
        await asyncio.to_thread(file.unlink, missing_ok=True)
        await runner.cleanup()
        await store.close()
