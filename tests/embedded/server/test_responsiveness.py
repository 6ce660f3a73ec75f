"""No request holds up the event loop: patterns that backtrack, patches that double, YAML in bulk."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edl.embedded.server import ADMIN, Server
from edl.embedded.server.crds import patterns
from tests.conformance.samples import config
from tests.embedded.server.requests import ask

pytestmark = pytest.mark.case("attack-8")

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
THING = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
PRESERVE = "x-kubernetes-preserve-unknown-fields"
LONGEST = 0.5


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path / "store.db", tokens={"t": ADMIN}) as running:
        yield running


@contextlib.asynccontextmanager
async def short_turns() -> AsyncIterator[None]:
    """The event loop never computes for long without serving others. Its own CPU time counts, whatever else runs."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            worst = max(worst, time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    yield
    await asyncio.sleep(0.01)
    ticking.cancel()
    assert worst < LONGEST


def definition(**text: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"text": {"type": "string", **text}}, PRESERVE: True}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def test_a_pattern_that_backtracks(server: Server) -> None:
    assert (await ask(server, "POST", DEFINITIONS, definition(pattern="^(a|a)*$")))[0] == 201
    async with short_turns():
        code, answer = await ask(server, "POST", THINGS, THING | {"spec": {"text": "a" * 26 + "!"}})
    assert code == 422
    assert "spec.text in body should match '^(a|a)*$'" in answer["message"]
    assert (await ask(server, "POST", THINGS, THING | {"spec": {"text": "a" * 26}}))[0] == 201


@pytest.mark.case("attack-low-jsonschema")
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^[a-z]+$", "ab", "ab\n"),  # in Python the dollar also matches before a last newline
        (r"^\d+\z", "12", "١٢"),
        (r"\A[[:alpha:]]+$", "ab", "a1"),
        (r"b", "abc", "ac"),
        (r"^(?i:ab)$", "AB", "AC"),
        (r"^(?P<year>\d{4})$", "2026", "26"),
        (r"^.{1,253}$", "é" * 253, "é" * 254),
        (r"^[\pL_]+$", "é_", "é-"),
    ],
)
def test_patterns_mean_what_they_mean_in_go(pattern: str, good: str, bad: str) -> None:
    assert patterns.matches(pattern, good)
    assert not patterns.matches(pattern, bad)


@pytest.mark.parametrize("pattern", [r"^\Qa.b\E$", r"(a{1000}){1000}"])
def test_a_pattern_that_the_engine_does_not_take_refuses_nothing(pattern: str) -> None:
    assert patterns.matches(pattern, "anything")


def test_a_large_pattern_does_not_meet_a_long_value() -> None:
    assert not patterns.matches(r"^.{1,253}", "x" * 100_000)


JSON_PATCH = "application/json-patch+json"


async def test_copies_that_double_the_object(server: Server) -> None:
    await ask(server, "POST", MAPS, config("victim", a="x" * 300))
    patch = [{"op": "copy", "from": "", "path": f"/data/x{number}"} for number in range(20)]
    async with short_turns():
        code, answer = await ask(server, "PATCH", f"{MAPS}/victim", patch, media=JSON_PATCH)
    assert (code, answer["reason"]) == (422, "Invalid")
    patch = [{"op": "copy", "from": "/data/a", "path": f"/data/b{number}"} for number in range(20)]
    code, answer = await ask(server, "PATCH", f"{MAPS}/victim", patch, media=JSON_PATCH)
    assert code == 200
    assert len(answer["data"]) == 21


async def test_patch_after_patch_does_not_add_up_without_bound(server: Server) -> None:
    assert (await ask(server, "POST", DEFINITIONS, definition()))[0] == 201
    assert (await ask(server, "POST", THINGS, THING))[0] == 201
    codes = []
    for number in range(4):
        patch = {"spec": {f"x{number}": "x" * 2_500_000}}
        code, _ = await ask(server, "PATCH", f"{THINGS}/t", patch, media="application/merge-patch+json")
        codes.append(code)
    assert codes == [200, 200, 413, 413]


@pytest.mark.parametrize("flow", [False, True])
async def test_yaml_in_bulk(server: Server, flow: bool) -> None:
    lines = [f"k{number}: v" for number in range(25_000)]
    if flow:
        text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: big}, data: {" + ", ".join(lines) + "}}"
    else:
        text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: big}\ndata:\n" + "".join(f"  {x}\n" for x in lines)
    async with short_turns():
        code, answer = await ask(server, "POST", MAPS, text.encode(), media="application/yaml")
    assert code == 201
    assert len(answer["data"]) == 25_000
    async with short_turns():
        code, answer = await ask(server, "GET", f"{MAPS}/big", accept="application/yaml")
    assert code == 200
    assert answer.startswith(b"kind: ConfigMap\n")
