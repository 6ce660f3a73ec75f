"""Watches: compaction, bookmarks, and what happens to them when the server or the resource goes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edl.embedded.server import ADMIN, Server
from tests.conformance.samples import DEFINITIONS, GADGETS, config, definition, gadget
from tests.embedded.server.requests import ask, watch

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(None, tokens={"t": ADMIN}) as running:
        yield running


async def test_a_forgotten_revision_is_gone(server: Server) -> None:
    for number in range(5):
        await ask(server, "POST", MAPS, config(f"m{number}"))
    server.store.compact(server.store.rv - 1)
    watching, events = await watch(server, f"{MAPS}?resourceVersion=3")
    assert watching.closed.done()
    assert [event["type"] for event in events] == ["ERROR"]
    status = events[0]["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"] == f"too old resource version: 3 ({server.store.compacted})"


async def test_a_forgotten_page_and_snapshot_are_gone(server: Server) -> None:
    for number in range(5):
        await ask(server, "POST", MAPS, config(f"m{number}"))
    _, page = await ask(server, "GET", f"{MAPS}?limit=2")
    await ask(server, "POST", MAPS, config("more"))
    server.store.compact(server.store.rv)
    code, status = await ask(server, "GET", f"{MAPS}?limit=2&continue={page['metadata']['continue']}")
    assert (code, status["reason"]) == (410, "Expired")
    assert status["message"].startswith("The provided continue parameter is too old")
    rest = status["metadata"]["continue"]
    code, page = await ask(server, "GET", f"{MAPS}?continue={rest}")
    assert (code, [item["metadata"]["name"] for item in page["items"]]) == (200, ["m2", "m3", "m4", "more"])
    code, status = await ask(server, "GET", f"{MAPS}?resourceVersion=3&resourceVersionMatch=Exact")
    assert (code, status["reason"]) == (410, "Expired")


async def test_bookmarks_tell_where_one_is(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edl.embedded.server.storage.watch.BOOKMARK_SECONDS", 0.01)
    watching, events = await watch(server, f"{MAPS}?allowWatchBookmarks=true&resourceVersion={server.store.rv}")
    await ask(server, "POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "other"}})
    async with asyncio.timeout(10):
        while not any(int(event["object"]["metadata"]["resourceVersion"]) == server.store.rv for event in events):
            await asyncio.sleep(0.005)
    assert {event["type"] for event in events} == {"BOOKMARK"}
    assert events[-1]["object"]["kind"] == "ConfigMap"
    watching.stop()


async def test_no_bookmarks_unless_asked_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edl.embedded.server.storage.watch.BOOKMARK_SECONDS", 0.001)
    watching, events = await watch(server, f"{MAPS}?resourceVersion={server.store.rv}")
    other, bookmarks = await watch(server, f"{MAPS}?allowWatchBookmarks=true&resourceVersion={server.store.rv}")
    async with asyncio.timeout(10):
        while len(bookmarks) < 5:
            await asyncio.sleep(0.001)
    assert events == []
    watching.stop()
    other.stop()


async def test_one_encoding_serves_all(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    from edl.embedded.server.http.render import Renderer

    original = Renderer.event

    def counting(self: Renderer, kind: str, entry: object, *, columns: bool = False) -> bytes:
        encoded.append(kind)
        return original(self, kind, entry, columns=columns)  # type: ignore[arg-type]

    monkeypatch.setattr(Renderer, "event", counting)
    watching = [await watch(server, f"{MAPS}?resourceVersion={server.store.rv}") for _ in range(20)]
    await ask(server, "POST", MAPS, config("m"))
    assert [len(events) for _, events in watching] == [1] * 20
    assert encoded == ["ADDED"]
    for one, _ in watching:
        one.stop()


async def test_two_versions_watch_one_resource(server: Server) -> None:
    crd = definition(GADGETS)
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2", "storage": False})
    await ask(server, "POST", DEFINITIONS, crd)
    first, one = await watch(server, f"/apis/{GADGETS}/v1/gadgets?resourceVersion={server.store.rv}")
    second, two = await watch(server, f"/apis/{GADGETS}/v2/gadgets?resourceVersion={server.store.rv}")
    assert (await ask(server, "POST", f"/apis/{GADGETS}/v1/namespaces/default/gadgets", gadget()))[0] == 201
    assert [events[0]["object"]["apiVersion"] for events in (one, two)] == [f"{GADGETS}/v1", f"{GADGETS}/v2"]
    first.stop()
    second.stop()


async def test_a_watch_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with Server(tmp_path / "s.db", tokens={"t": ADMIN}) as server:
        _, made = await ask(server, "POST", MAPS, config("a"))
        await ask(server, "POST", MAPS, config("b"))
        await ask(server, "DELETE", f"{MAPS}/a")
    async with Server(tmp_path / "s.db", tokens={"t": ADMIN}) as server:
        watching, events = await watch(server, f"{MAPS}?resourceVersion={made['metadata']['resourceVersion']}")
        await ask(server, "POST", MAPS, config("c"))
        seen = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
        assert seen == [("ADDED", "b"), ("DELETED", "a"), ("ADDED", "c")]
        watching.stop()
