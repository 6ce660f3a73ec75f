"""The same client and informer over real sockets: restarts, expired tokens, torn connections, TLS."""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import aclosing

import pytest

from edl.kube.auth.credentials import Auth, ClientConfig
from edl.kube.cache.informer import Informer
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, ConnectionLostError, KubeError
from edl.kube.rest.transport import HttpTransport, Request, Response
from tests.kube.fake_api import FakeApi, HangUp, anybody, line, refuse, reply, serving, streaming
from tests.kube.things import THINGS, Thing, running, truth, until, values


def client_at(url: str, *tokens: str) -> Client:
    return Client(HttpTransport(anybody(url, *tokens)), timeout=20.0)


async def test_an_informer_over_http() -> None:
    api = FakeApi()
    for number in range(7):
        api.put("things", f"t{number}", value=number)
    async with serving(api.handle) as url:
        client = client_at(url)
        informer = Informer(client, THINGS, Thing, page=3)
        async with running(informer):
            await asyncio.wait_for(informer.wait_synced(), 20)
            api.put("things", "t0", value=100)
            api.put("things", "big", value=1, padding="x" * 2**20)
            api.remove("things", "t1")
            await until(lambda: values(informer) == truth(api), within=20)
        await client.close()


async def test_a_server_that_restarts() -> None:
    """It goes away in the middle of a watch and comes back on the same port, with another history."""
    api = FakeApi()
    api.put("things", "a", value=1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with serving(api.handle, port=port) as url:
        client = client_at(url)
        informer = Informer(client, THINGS, Thing)
        task = asyncio.create_task(informer.run())
        await until(lambda: len(api.asked(watch=True)) == 1, within=20)
    api.put("things", "a", value=2)
    api.put("things", "b", value=1)
    api.compact()
    await until(lambda: informer.failure is not None and "cannot reach" in informer.failure, within=20)
    async with serving(api.handle, port=port):
        await until(lambda: values(informer) == truth(api), within=30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


async def test_a_token_that_expires_in_the_middle_of_a_watch() -> None:
    api, valid = FakeApi(), {"first"}
    api.put("things", "a", value=1)

    def check(headers: Mapping[str, str]) -> bool:
        return headers.get("Authorization", "").removeprefix("Bearer ") in valid

    async with serving(api.handle, check=check) as url:
        client = client_at(url, "first", "second")
        informer = Informer(client, THINGS, Thing)
        async with running(informer):
            await until(lambda: len(api.asked(watch=True)) == 1, within=20)
            valid.clear()
            valid.add("second")
            api.hang_up()  # as the server does when a token expires
            api.put("things", "a", value=2)
            await until(lambda: values(informer) == truth(api), within=20)
            assert len(api.asked(watch=False)) == 1, "a new token is no reason to list again"
        await client.close()


async def test_refused_credentials_are_tried_once_more_and_then_told() -> None:
    seen: list[str] = []

    def check(headers: Mapping[str, str]) -> bool:
        seen.append(headers["Authorization"])
        return False

    async with serving(FakeApi().handle, check=check) as url:
        client = client_at(url, "old", "new")
        with pytest.raises(ApiError) as caught:
            await client.get(THINGS, "a", namespace="default")
        assert caught.value.is_unauthorized
        assert seen == ["Bearer old", "Bearer new"]
        await client.close()


async def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = client_at(f"http://127.0.0.1:{port}")
    with pytest.raises(ConnectionLostError, match="cannot reach") as caught:
        await client.create(THINGS, {}, namespace="default", timeout=30)
    assert not caught.value.sent
    await client.close()


async def test_a_connection_broken_before_the_answer_may_have_done_its_work() -> None:
    async def hang_up(request: Request) -> Response:
        raise HangUp

    async with serving(hang_up) as url:
        client = client_at(url)
        with pytest.raises(ConnectionLostError) as caught:
            await client.create(THINGS, {}, namespace="default")
        assert caught.value.sent
        await client.close()


async def follow(client: Client, into: list[object], *, idle: float = 90.0) -> None:
    async with aclosing(client.watch(THINGS, resource_version="0", type=Thing, idle=idle)) as changes:
        async for batch in changes:
            into.extend(batch)


@pytest.mark.parametrize(
    ("ending", "says"),
    [({"broken": True}, "ClientPayloadError"), ({"then_silence": True}, r"nothing received for 0\.8 s")],
)
async def test_a_stream_that_breaks_or_falls_silent(ending: dict[str, bool], says: str) -> None:
    item = {"metadata": {"name": "a", "resourceVersion": "1"}}
    async with serving(streaming(line("ADDED", item), b'{"type":"ADD', **ending)) as url:
        client, seen = client_at(url), list[object]()
        with pytest.raises(ConnectionLostError, match=says):
            await follow(client, seen, idle=0.8)
        assert len(seen) == 1
        await client.close()


async def test_a_refused_stream_says_why() -> None:
    async def forbidden(request: Request) -> Response:
        return refuse(403, "Forbidden")

    async with serving(forbidden) as url:
        client = client_at(url)
        with pytest.raises(ApiError) as caught:
            async with aclosing(client.watch(THINGS, resource_version="0")) as changes:
                await anext(changes)
        assert caught.value.is_forbidden
        await client.close()


async def test_a_server_behind_a_path_and_query_texts_that_need_quoting() -> None:
    asked: list[Request] = []

    async def answer(request: Request) -> Response:
        asked.append(request)
        return reply({"metadata": {"resourceVersion": "1"}, "items": []})

    async with serving(answer) as url:
        client = client_at(url + "/k8s/clusters/c-1/")
        await client.list(THINGS, labels="app in (a, b),tier!=web", fields={"metadata.name": "x"})
        await client.close()
    assert asked[0].path == "/k8s/clusters/c-1/apis/test.dev/v1/things"
    assert asked[0].query["labelSelector"] == "app in (a, b),tier!=web"


async def test_many_calls_share_the_connections_while_watches_hold_theirs() -> None:
    api = FakeApi()
    api.put("things", "a", value=1)
    async with serving(api.handle) as url:
        client = client_at(url)
        informers = [Informer(client, THINGS, Thing) for _ in range(30)]
        async with running(*informers):
            await asyncio.wait_for(asyncio.gather(*(one.wait_synced() for one in informers)), 30)
            await asyncio.gather(*(client.get(THINGS, "a", namespace="default") for _ in range(30)))
        await client.close()


async def test_credentials_that_fail_fail_the_call() -> None:
    async def broken(refused: Auth | None) -> Auth:
        raise KubeError("the plugin is gone")

    client = Client(HttpTransport(ClientConfig("http://127.0.0.1:1", broken)))
    with pytest.raises(KubeError, match="the plugin is gone"):
        await client.get(THINGS, "a", namespace="default")
    await client.close()
