"""Hostile requests: whatever comes in, a Status comes out, nothing breaks, and the next honest request is served."""

import copy
import json
import random
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from edl.embedded.server import ADMIN, Server
from edl.embedded.server.api import Request
from edl.embedded.server.storage.watch import Watch
from edl.embedded.server.verbs.call import Response, parse_query
from tests.conformance.samples import GADGETS, definition
from tests.embedded.server.junk import CORE, JUNK, MEDIA, SAMPLES


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


def mutated(dice: random.Random, sample: dict[str, Any]) -> dict[str, Any]:
    """The sample with one to three places replaced, removed, renamed or doubled."""
    value = copy.deepcopy(sample)
    for _ in range(dice.randint(1, 3)):
        path = dice.choice(places(value) or [("metadata",)])
        holder: Any = value
        for key in path[:-1]:
            holder = holder[key]
        change = dice.random()
        if change < 0.7 or isinstance(holder, list):
            holder[path[-1]] = copy.deepcopy(dice.choice(JUNK))
        elif change < 0.85:
            holder.pop(path[-1], None)
        else:
            holder[dice.choice(["unknown", "kind", "metadata", "spec", "status"])] = holder.get(path[-1])
    return value


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(None, tokens={"t": ADMIN}) as running:
        await ask(running, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(GADGETS))
        yield running


async def ask(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    media: str = "application/json",
    accept: str = "application/json",
) -> tuple[int, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    where, _, query = path.partition("?")
    result = await server.api.handle(Request(method, where, parse_query(query), data, media, accept, ADMIN, "fuzz/1"))
    if isinstance(result, Watch):
        result.stop()
        return 200, b""
    assert isinstance(result, Response)
    check(result, f"{method} {path} {data[:2000]!r}")
    return result.code, result.body


def check(answer: Response, what: str) -> None:
    """An answer that Kubernetes might give: an object, or a Status that agrees with the code."""
    if answer.content_type != "application/json":
        return
    body = json.loads(answer.body)
    if answer.code >= 400:
        assert body["kind"] == "Status", what
        assert (body["status"], body["code"]) == ("Failure", answer.code), what
        assert body["message"], what
        assert body.get("reason") != "InternalError", f"{what} -> {body['message']}"
    else:
        assert isinstance(body, dict), what


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OPERATIONS = ["add", "remove", "replace", "move", "copy", "test", "x"]
DELETION = {"gracePeriodSeconds": 0, "preconditions": {"uid": "x"}, "propagationPolicy": "Orphan"}


def operation(dice: random.Random, sample: dict[str, Any]) -> dict[str, Any]:
    path = "/" + "/".join(map(str, dice.choice(places(sample))))
    return {"op": dice.choice(OPERATIONS), "path": path, "from": "/spec", "value": dice.choice(JUNK)}


async def try_one(server: Server, dice: random.Random, collection: str, sample: dict[str, Any]) -> None:
    """One way or another, an object as the server knows it and one that is slightly off."""
    value, path = mutated(dice, sample), f"{collection}/{sample['metadata']['name']}"
    match dice.randrange(6):
        case 0:
            validation = dice.choice(["Strict", "Warn", "Ignore"])
            await ask(server, "POST", f"{collection}?fieldValidation={validation}", value)
        case 1:
            await ask(server, "PUT", path, value)
        case 2:
            force = dice.choice(["true", "false"])
            await ask(server, "PATCH", f"{path}?fieldManager=f&force={force}", value, dice.choice(MEDIA[1:]))
        case 3:
            patch = [operation(dice, sample) for _ in range(dice.randint(1, 3))]
            await ask(server, "PATCH", path, patch, MEDIA[0])
        case 4:
            for part in ("status", "scale", "resize", "binding", "eviction", "finalize", "token"):
                method = dice.choice(["PUT", "PATCH", "POST", "GET"])
                await ask(server, method, f"{path}/{part}", value, dice.choice([*MEDIA, "application/json"]))
        case _:
            await ask(server, "DELETE", path, mutated(dice, DELETION))


@pytest.mark.parametrize("seed", range(6))
async def test_mutated_objects(server: Server, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(seed)
    for _ in range(150):
        base, plural, sample = dice.choice(SAMPLES)
        collection = f"{base}/{plural}"
        await ask(server, "POST", collection, sample)
        await try_one(server, dice, collection, sample)
        await ask(server, "GET", collection, accept=dice.choice(["application/json", TABLE]))
    assert (await ask(server, "GET", f"{CORE}/namespaces/default"))[0] == 200
    assert not caplog.records, caplog.text


@pytest.mark.parametrize("seed", range(2))
async def test_bodies_that_are_no_objects(server: Server, seed: int) -> None:
    dice = random.Random(seed)
    media = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "", *MEDIA]
    for _ in range(300):
        base, plural, sample = dice.choice(SAMPLES)
        good = json.dumps(sample).encode()
        cut = dice.randrange(len(good))
        body = dice.choice(
            [
                dice.randbytes(dice.randrange(200)),
                good[:cut],
                good[:cut] + dice.randbytes(3) + good[cut:],
                b"k8s\0" + dice.randbytes(80),
                b"[" * 5000,
                b'{"a":' * 5000,
                yaml.safe_dump(sample).encode()[:cut],
                b"&a [*a]",
                b"a: &x [*x]",
                b"\xff\xfe",
                b"null",
                b"1e999",
                b'{"metadata":{"name":"x","annotations":{"a":' + b"[" * 900 + b"]" * 900 + b"}}}",
            ]
        )
        method = dice.choice(["POST", "PUT", "PATCH", "DELETE"])
        path = f"{base}/{plural}" + ("" if method == "POST" else "/x")
        await ask(server, method, f"{path}?fieldManager=f", body, dice.choice(media))


WORDS = [
    "api",
    "apis",
    "v1",
    "apps",
    "namespaces",
    "default",
    "pods",
    "x",
    "..",
    "%2e%2e",
    "%00",
    "💥",
    "status",
    "log",
    "watch",
    "openapi",
    "v3",
]
WORDS += ["", "a" * 300, GADGETS]


NAMES = [
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "timeoutSeconds",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "includeObject",
    "gracePeriodSeconds",
    "container",
]
VALUES = [
    "1",
    "-1",
    "true",
    "abc",
    "Exact",
    "NotOlderThan",
    "All",
    "a=b",
    "!a",
    "=",
    "99999999999999999999",
    "💥",
    "metadata.name=x",
    "spec.nodeName!=",
]
VALUES += ["", "a in (b", "\0", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ4XHUwMDAwIn0"]


ACCEPTED = ["application/json", "*/*", "text/html", "", ";;;", TABLE, "application/yaml", "a/b;q=x,application/json"]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"]


@pytest.mark.parametrize("seed", range(2))
async def test_paths_and_queries(server: Server, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(400):
        words = [dice.choice(WORDS) for _ in range(dice.randint(0, 7))]
        path = "/" + "/".join(quote(word) if dice.random() < 0.8 else word for word in words)
        query = "&".join(f"{dice.choice(NAMES)}={quote(dice.choice(VALUES))}" for _ in range(dice.randint(0, 4)))
        await ask(server, dice.choice(METHODS), f"{path}?{query}", accept=dice.choice(ACCEPTED))
