"""Real processes, real signals: a leader stopped for longer than its lease must not write when it wakes."""

import asyncio
import itertools
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.kube.fake_api import FakeApi, serving
from tests.kube.things import until

LEASE = 6.0  # the shortest that busy cores keep without fail


@asynccontextmanager
async def candidate(url: str, identity: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.kube.candidate", url, identity, str(LEASE), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def writers(api: FakeApi) -> list[str]:
    """Who wrote to the ledger, in the server's order, without repetitions."""
    wrote = [item["writer"] for _, plural, _, item in api.history if plural == "things" and "writer" in item]
    return [writer for writer, _ in itertools.groupby(wrote)]


async def test_a_leader_paused_by_sigstop_writes_nothing_when_it_wakes() -> None:
    api = FakeApi()
    api.put("things", "ledger", "edl")
    async with serving(api.handle) as url, candidate(url, "first") as first:
        await until(lambda: writers(api) == ["first"], within=60)
        async with candidate(url, "second") as second:
            await until(
                lambda: any("leases/leader" in r.path and r.method == "GET" for r in api.requests[-50:]), within=60
            )
            await asyncio.sleep(LEASE / 4)
            first.send_signal(signal.SIGSTOP)
            await until(lambda: writers(api)[-1] == "second", within=60)
            first.send_signal(signal.SIGCONT)
            assert await asyncio.wait_for(first.wait(), 60) == 3, "it knows that it lost"
            many = len(api.history)
            await until(lambda: len(api.history) > many + 20, within=60)
            assert second.returncode is None
    assert writers(api) == ["first", "second"], "the server never saw the first one again"
