"""/metrics over TLS: for accounts that may get it, and for nobody else."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import msgspec
import pytest

from edl.certificates import Authority
from edl.kube.rest.access_reviews import ACCESS_REVIEWS, REMEMBERED_FOR, TOKEN_REVIEWS, TOKENS
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.resource import Resource
from edl.operator.metrics.server import MetricsServer

pytestmark = pytest.mark.case("attack-13")

AUTHORITY = Authority.create("test")


class Reviews:
    """An API server that knows two accounts, one of which may get metrics."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down = False

    async def create(self, resource: Resource, body: dict[str, Any], **wanted: Any) -> Any:
        self.asked.append(resource.plural)
        if self.down:
            raise ConnectionLostError("the API server is away")
        if resource == TOKEN_REVIEWS:
            token = body["spec"]["token"]
            known = token in ("prometheus", "nobody")
            status: dict[str, Any] = {"authenticated": known, "user": {"username": token} if known else {}}
        else:
            assert resource == ACCESS_REVIEWS
            assert body["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
            status = {"allowed": body["spec"]["user"] == "prometheus"}
        return msgspec.convert({"status": status}, wanted["type"])


class Scene:
    def __init__(self) -> None:
        self.reviews, self.now, self.own_token = Reviews(), 0.0, ""
        tls = AUTHORITY.server_context(AUTHORITY.issue("x", hosts=["127.0.0.1"]), accept_clients=False)
        self.server = MetricsServer(
            cast(Client, self.reviews),
            lambda: b"edl_jobs 1\n",
            address=("127.0.0.1", 0),
            tls=tls,
            own_token=lambda: self.own_token,
            clock=lambda: self.now,
        )

    async def get(self, authorization: str | None, path: str = "/metrics", own: str = "") -> tuple[int, str]:
        trust = ssl.create_default_context(cadata=AUTHORITY.pair.certificate.decode())
        headers = {"Authorization": authorization} if authorization is not None else {}
        headers |= {"EDL-Token": own} if own else {}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{self.server.port}{path}", headers=headers, ssl=trust) as answer,
        ):
            return answer.status, await answer.text()


@asynccontextmanager
async def serving() -> AsyncIterator[Scene]:
    scene = Scene()
    async with scene.server.listening():
        yield scene


async def test_whoever_may_get_metrics_does() -> None:
    async with serving() as scene:
        assert await scene.get("Bearer prometheus") == (200, "edl_jobs 1\n")
        assert (await scene.get("Bearer prometheus", "/healthz"))[0] == 404


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("", 401),
        ("Basic prometheus", 401),
        ("Bearer ", 401),
        ("Bearer made-up", 401),
        ("Bearer nobody", 403),
    ],
)
async def test_nobody_else_does(authorization: str | None, status: int) -> None:
    async with serving() as scene:
        found, text = await scene.get(authorization)
        assert found == status
        assert "edl_jobs" not in text


@pytest.mark.case("attack-low-bearer")
async def test_a_token_of_bytes_that_are_no_text_is_none() -> None:
    async with serving() as scene:
        trust = ssl.create_default_context(cadata=AUTHORITY.pair.certificate.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.server.port, ssl=trust)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 401 ")


async def test_the_word_of_the_api_server_counts_for_a_while() -> None:
    async with serving() as scene:
        for _ in range(3):
            assert (await scene.get("Bearer prometheus"))[0] == 200
        assert len(scene.reviews.asked) == 2
        scene.now = REMEMBERED_FOR + 1
        scene.reviews.down = True
        assert (await scene.get("Bearer prometheus"))[0] == 503


async def test_ever_new_tokens_fill_nothing() -> None:
    async with serving() as scene:
        await asyncio.gather(*(scene.server._status_for(f"Bearer t{number}") for number in range(2 * TOKENS)))
        assert len(scene.server._reviews._tokens) <= TOKENS


async def test_in_the_clear_it_says_nothing() -> None:
    async with serving() as scene:
        with pytest.raises(aiohttp.ClientError):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{scene.server.port}/metrics"),
            ):
                pass


async def test_who_reads_the_installations_key_reads_them_without_asking_the_api_server() -> None:
    """So does `edl doctor --bundle`, through the API server's proxy, which keeps a bearer token for itself."""
    async with serving() as scene:
        assert (await scene.get(None, own="anything"))[0] == 401, "there is no such token yet"
        scene.own_token = "derived"
        scene.reviews.down = True
        assert await scene.get(None, own="derived") == (200, "edl_jobs 1\n")
        assert (await scene.get(None, own="another"))[0] == 401
        assert scene.reviews.asked == []
