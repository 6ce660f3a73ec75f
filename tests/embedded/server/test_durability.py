"""kill -9 of the API server, fifty times under write load: what was acknowledged is there, whole, and watches go on.

The server is forked from a process that has imported it already, so that fifty starts take seconds. Writers create,
update and delete, and note what was acknowledged; after each kill a new server must agree with their notes.
"""

import asyncio
import contextlib
import itertools
import json
import multiprocessing
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edl.embedded.server import ADMIN, Server

ROUNDS = 50
WRITERS = 6
MAPS = "/api/v1/namespaces/default/configmaps"
_context = multiprocessing.get_context("forkserver")


def serve(path: Path, ready: Connection) -> None:
    async def run() -> None:
        async with Server(path, tokens={"t": ADMIN}) as server:
            ready.send(server.url)
            await asyncio.Event().wait()

    asyncio.run(run())


@contextlib.contextmanager
def running(path: Path) -> Iterator[tuple[str, Any]]:
    """(url, process) of a server that is killed at the end, if not before."""
    ours, theirs = _context.Pipe()
    process = _context.Process(target=serve, args=(path, theirs))
    process.start()
    theirs.close()
    try:
        assert ours.poll(60), "the server did not start"
        yield ours.recv(), process
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


@dataclass
class Notes:
    """The state one writer expects. `doubtful`: requested and not answered, so that either state is right."""

    present: dict[str, int] = field(default_factory=dict)
    doubtful: dict[str, set[int | None]] = field(default_factory=dict)
    newest: int = 0


class Writer:
    """Keeps a handful of ConfigMaps whose two values must always be equal."""

    def __init__(self, number: int, dice: random.Random) -> None:
        self.notes = Notes()
        self._names = [f"w{number}-{index}" for index in range(4)]
        self._dice = dice
        self._values = itertools.count(1)

    async def work(self, http: aiohttp.ClientSession) -> None:
        while True:
            name, value = self._dice.choice(self._names), next(self._values)
            if name not in self.notes.present:
                await self._try(http, "POST", MAPS, name, value)
            elif self._dice.random() < 0.2:
                await self._try(http, "DELETE", f"{MAPS}/{name}", name, None)
            else:
                await self._try(http, "PUT", f"{MAPS}/{name}", name, value)

    async def _try(self, http: aiohttp.ClientSession, method: str, path: str, name: str, value: int | None) -> None:
        body = {"metadata": {"name": name}, "data": {"a": str(value), "b": str(value)}} if value is not None else None
        self.notes.doubtful[name] = {self.notes.present.get(name), value}
        async with http.request(method, path, json=body) as answer:
            text = await answer.read()
        assert answer.status in (200, 201), text
        del self.notes.doubtful[name]
        if value is None:
            del self.notes.present[name]
        else:
            self.notes.present[name] = value
            self.notes.newest = max(self.notes.newest, int(json.loads(text)["metadata"]["resourceVersion"]))

    def learn(self, found: dict[str, int]) -> None:
        """Compare with what the restarted server has, and go on from there."""
        mine = {name: value for name, value in found.items() if name in self._names}
        for name in self._names:
            allowed = self.notes.doubtful.get(name, {self.notes.present.get(name)})
            assert mine.get(name) in allowed, f"{name}: {mine.get(name)} was found, {allowed} was acknowledged"
        self.notes.present, self.notes.doubtful = mine, {}


async def load(url: str, writers: list[Writer], seconds: float, kill: Any) -> None:
    async with aiohttp.ClientSession(url, headers={"Authorization": "Bearer t"}) as http:
        tasks = [asyncio.create_task(writer.work(http)) for writer in writers]
        await asyncio.sleep(seconds)
        kill()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, (aiohttp.ClientError, ConnectionError)), outcome


async def listed(http: aiohttp.ClientSession) -> tuple[dict[str, int], int]:
    async with http.get(MAPS) as answer:
        found = json.loads(await answer.read())
    values: dict[str, int] = {}
    for item in found["items"]:
        if item["metadata"]["name"].startswith("w"):
            assert item["data"]["a"] == item["data"]["b"], "half a write is visible"
            values[item["metadata"]["name"]] = int(item["data"]["a"])
    return values, int(found["metadata"]["resourceVersion"])


async def check(
    url: str, writers: list[Writer], before: tuple[dict[str, int], int] | None
) -> tuple[dict[str, int], int]:
    """The stored state agrees with every writer's, and with the events of a watch since `before`."""
    async with aiohttp.ClientSession(url, headers={"Authorization": "Bearer t"}) as http:
        found, version = await listed(http)
        assert version >= max(writer.notes.newest for writer in writers)
        if before is not None:
            assert await replayed(http, *before) == found, "a watch from before the kill does not lead to what is there"
    for writer in writers:
        writer.learn(found)
    return found, version


async def replayed(http: aiohttp.ClientSession, state: dict[str, int], version: int) -> dict[str, int]:
    """The state of an earlier list after the events since."""
    state = dict(state)
    query = {"watch": "true", "resourceVersion": str(version), "timeoutSeconds": "1"}
    last = version
    async with http.get(MAPS, params=query) as answer:
        async for line in answer.content:
            event = json.loads(line)
            meta = event["object"]["metadata"]
            assert int(meta["resourceVersion"]) > last
            last = int(meta["resourceVersion"])
            if meta["name"].startswith("w"):
                if event["type"] == "DELETED":
                    del state[meta["name"]]
                else:
                    state[meta["name"]] = int(event["object"]["data"]["a"])
    return state


@pytest.mark.timeout(240)
async def test_no_acknowledged_write_is_lost(tmp_path: Path) -> None:
    _context.set_forkserver_preload([__name__])
    dice = random.Random(20260101)
    writers = [Writer(number, dice) for number in range(WRITERS)]
    path = tmp_path / "store.db"
    before: tuple[dict[str, int], int] | None = None
    for round_ in range(ROUNDS + 1):
        with running(path) as (url, process):
            found = await check(url, writers, before if round_ % 10 == 0 else None)
            before = found if before is None or round_ % 10 == 0 else before
            if round_ < ROUNDS:
                await load(url, writers, dice.uniform(0.01, 0.08), process.kill)
    assert sum(next(writer._values) for writer in writers) > ROUNDS


async def test_what_one_request_wrote_comes_back_together(tmp_path: Path) -> None:
    """A namespace and its service account are one transaction: never one without the other."""
    _context.set_forkserver_preload([__name__])
    path = tmp_path / "store.db"
    for round_ in range(5):
        with running(path) as (url, process):
            async with aiohttp.ClientSession(url, headers={"Authorization": "Bearer t"}) as http:
                async with http.get("/api/v1/namespaces") as answer:
                    names = {item["metadata"]["name"] for item in (await answer.json())["items"]}
                async with http.get("/api/v1/serviceaccounts") as answer:
                    accounts = {item["metadata"]["namespace"] for item in (await answer.json())["items"]}
                assert names == accounts
                making = [
                    http.post("/api/v1/namespaces", json={"metadata": {"name": f"n{round_}-{n}"}}) for n in range(40)
                ]
                tasks = [asyncio.ensure_future(request) for request in making]
                await asyncio.sleep(0.005 * round_)
                process.kill()
                for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(outcome, aiohttp.ClientResponse):
                        outcome.close()
