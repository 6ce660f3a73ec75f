"""Events live one hour from their last write, across restarts, and watchers hear of their end."""

from pathlib import Path

import pytest

from edl.embedded.server import ADMIN, Server, event_expiry
from tests.embedded.server.requests import ask, watch

pytestmark = pytest.mark.case("attack-7")

EVENTS = "/api/v1/namespaces/default/events"
START = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def event(name: str, **fields: object) -> dict[str, object]:
    regarding = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {"metadata": {"name": name}, "involvedObject": regarding, "reason": "Test", "message": "m", **fields}


async def names(server: Server) -> set[str]:
    code, found = await ask(server, "GET", EVENTS)
    assert code == 200
    return {item["metadata"]["name"] for item in found["items"]}


async def test_an_event_lives_one_hour_from_its_last_write(tmp_path: Path) -> None:
    clock = Clock()
    async with Server(tmp_path / "s.db", tokens={"t": ADMIN}, clock=clock) as server:
        future = {"lastTimestamp": "2099-01-01T00:00:00Z"}  # a client's own word does not count
        for name, fields in (("old", {}), ("liar", future), ("repeated", {})):
            assert (await ask(server, "POST", EVENTS, event(name, **fields)))[0] == 201
        _, seen = await watch(server, EVENTS)
        clock.now += 1800
        media = "application/merge-patch+json"
        assert (await ask(server, "PATCH", f"{EVENTS}/repeated", {"count": 2}, media=media))[0] == 200
        clock.now += 1799
        await server._event_expiry.expire()
        assert await names(server) == {"old", "liar", "repeated"}
        clock.now += 1
        await server._event_expiry.expire()
        assert await names(server) == {"repeated"}
        assert [entry["object"]["metadata"]["name"] for entry in seen if entry["type"] == "DELETED"] == ["old", "liar"]
    clock.now += 1799
    async with Server(tmp_path / "s.db", tokens={"t": ADMIN}, clock=clock) as server:
        await server._event_expiry.expire()
        assert await names(server) == {"repeated"}
        clock.now += 1
        await server._event_expiry.expire()
        assert await names(server) == set()


async def test_many_events_end_in_short_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_expiry, "_MOST_AT_ONCE", 4)
    clock = Clock()
    async with Server(tmp_path / "s.db", tokens={"t": ADMIN}, clock=clock) as server:
        for number in range(10):
            await ask(server, "POST", EVENTS, event(f"e{number}"))
        clock.now += 3600
        assert await server._event_expiry.expire()
        assert len(await names(server)) == 6
        assert await server._event_expiry.expire()
        assert not await server._event_expiry.expire()
        assert await names(server) == set()
