"""`edl ui` on a cluster that has the page: through the API server's proxy, to one Service alone, with the user's token.

The proxy is played here as the real one behaves (it takes the user's credential, and keeps it); the page behind it, the
tunnel and the command are the real ones. The kube tier has a real API server.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.rest.errors import KubeError
from edl.web.tunnel import NoPageError, Tunnel, safe_path
from tests.web.world import PATIENCE, Stream, World, only_in, sized, world

BASE = "/api/v1/namespaces/edl-system/services/https:edl-web:443/proxy"
WAIT = 120.0


class Proxy:
    """An API server that knows rita, and the way to the page."""

    def __init__(self, page: str, session: aiohttp.ClientSession) -> None:
        self._page, self._session = page, session
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.status = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.raw_path, dict(request.headers)))
        if request.headers.get("Authorization") != "Bearer rita":
            return web.json_response({"kind": "Status", "message": "who are you?"}, status=401)
        if self.status or not request.raw_path.startswith(f"{BASE}/"):
            return web.json_response({"kind": "Status", "message": "no"}, status=self.status or 418)
        kept = {"Host", "Authorization", "Content-Length"}
        headers = {name: value for name, value in request.headers.items() if name not in kept}
        where = self._page + request.raw_path.removeprefix(BASE)
        body = await request.read()
        async with self._session.request(request.method, where, data=body, headers=headers) as answer:
            assert "Authorization" not in headers
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response


@contextlib.asynccontextmanager
async def proxied() -> AsyncIterator[tuple[World, Proxy]]:
    async with world() as there, aiohttp.ClientSession() as session:
        there.api.users["rita"] = only_in("red")
        for name in ("red", "blue"):
            await there.namespace(name)
        await there.job("mine", "red", **sized(2))
        await there.job("theirs", "blue")
        await there.shown("mine", "theirs")
        proxy = Proxy(there.url, session)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield there, proxy
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def tunnel_to(url: str, **headers: str) -> AsyncIterator[Tunnel]:
    given = {"Authorization": "Bearer rita"} | {name.replace("_", "-"): value for name, value in headers.items()}
    made = Tunnel(ClientConfig(url, fixed_auth(Auth(given))), "edl-system")
    try:
        yield made
    finally:
        await made.close()


@contextlib.asynccontextmanager
async def looking(url: str) -> AsyncIterator[tuple[str, aiohttp.ClientSession, dict[str, str]]]:
    """A browser that the tunnel has logged in: the address, its connection, its session."""
    async with tunnel_to(url) as tunnel, tunnel.serving("127.0.0.1", 0) as address, aiohttp.ClientSession() as browser:
        await tunnel.check()
        body, ours = {"code": await tunnel.code(actions=False)}, {"EDL-Request": "1", "Origin": address}
        async with browser.post(f"{address}/api/v1/login", json=body, headers=ours) as answer:
            assert answer.status == 200, await answer.text()
            yield address, browser, {"EDL-Token": (await answer.json())["session"]}


async def test_the_viewer_sees_through_it_what_they_may_see_and_no_more() -> None:
    async with proxied() as (_, proxy), looking(proxy.url) as (address, browser, session):
        async with browser.get(f"{address}/api/v1/jobs", headers=session) as answer:
            assert [row["name"] for row in (await answer.json())["rows"]] == ["mine"]
        async with browser.get(f"{address}/api/v1/cluster", headers=session) as answer:
            assert (answer.status, (await answer.json())["code"]) == (403, "forbidden")
        async with browser.get(f"{address}/api/v1/jobs") as answer:
            assert answer.status == 401, "the tunnel itself logs nobody in"
        async with browser.get(address) as answer:
            assert "<title>EDL</title>" in await answer.text()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert not any("rita" in path for path, _ in proxy.asked), "no secret in an address"


async def test_it_is_live() -> None:
    async with proxied() as (there, proxy), looking(proxy.url) as (address, browser, session):
        timeout = aiohttp.ClientTimeout(total=PATIENCE * 2)
        async with browser.get(f"{address}/api/v1/stream?view=jobs", headers=session, timeout=timeout) as answer:
            stream = Stream(answer)
            assert [row["name"] for row in (await stream.next("jobs"))["rows"]] == ["mine"]
            await there.job("late", "red")
            assert [row["name"] for row in (await stream.next("jobs"))["rows"]] == ["late"]


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../secrets",
        "/x/../../..",
        "/%2e%2e/%2e%2e/secrets",
        "/%2E%2e%2fsecrets",
        "/..%5c..",
        "/api/v1/jobs/.%2e/x",
        "/%00",
    ],
)
async def test_no_path_leads_out_of_the_service(path: str) -> None:
    """By a socket of our own: a client would tidy it up."""
    async with proxied() as (_, proxy), tunnel_to(proxy.url) as tunnel, tunnel.serving("127.0.0.1", 0) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        status = (await reader.read()).split(b"\r\n")[0]
        writer.close()
        assert status.split()[1] in (b"404", b"400")
        assert proxy.asked == []


def test_ordinary_paths_are_left_as_they_are() -> None:
    for path in ("/", "/assets/app.js", "/api/v1/jobs/a.b/c/%3Cb%3E", "/api/v1/jobs/a/b/c...d"):
        assert safe_path(path) == path


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"EDL-Request": ""},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=["name", "origin", "form", "site"],
)
async def test_a_call_of_another_site_ends_here(headers: dict[str, str]) -> None:
    async with proxied() as (_, proxy), tunnel_to(proxy.url) as tunnel, tunnel.serving("127.0.0.1", 0) as address:
        given = {name: value for name, value in ({"EDL-Request": "1"} | headers).items() if value}
        login = f"{address}/api/v1/login"
        async with aiohttp.ClientSession() as browser, browser.post(login, json={}, headers=given) as answer:
            assert answer.status == 403
        assert proxy.asked == []


@pytest.mark.parametrize(("status", "words"), [(404, "edl install --web"), (403, "Role edl-web"), (503, "no")])
async def test_a_cluster_without_a_page_that_one_may_get_to(status: int, words: str) -> None:
    async with proxied() as (_, proxy), tunnel_to(proxy.url) as tunnel:
        proxy.status = status
        with pytest.raises(NoPageError, match=words):
            await tunnel.check()


async def test_the_api_server_goes_away() -> None:
    async with tunnel_to("http://127.0.0.1:1") as tunnel, tunnel.serving("127.0.0.1", 0) as address:
        with pytest.raises(KubeError):
            await tunnel.check()
        async with aiohttp.ClientSession() as browser, browser.get(address) as answer:
            assert (answer.status, (await answer.json())["code"]) == (503, "unavailable")


async def test_who_acts_as_somebody_else_is_not_logged_in_as_themselves() -> None:
    async with tunnel_to("http://127.0.0.1:1", Impersonate_User="bob") as tunnel:
        assert await tunnel.token() == ""
    async with tunnel_to("http://127.0.0.1:1") as tunnel:
        assert await tunnel.token() == "rita"


@contextlib.asynccontextmanager
async def edl_ui(tmp_path: Path, url: str) -> AsyncIterator[str]:
    """The command in a process of its own; gives what it prints, and ends it as Ctrl-C does."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "rita"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    command = ["-m", "edl.cli.main", "ui", "--print", "--kubeconfig", str(tmp_path / "config")]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WAIT):
            yield (await process.stdout.readline()).decode().removeprefix("serving ").strip()
    finally:
        process.send_signal(signal.SIGINT)
        _, said = await asyncio.wait_for(process.communicate(), WAIT)
        (tmp_path / "said").write_bytes(said)
        assert process.returncode == 0, said.decode()


async def ask(url: str, body: Any = None, **headers: str) -> Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as browser:
        method = "GET" if body is None else "POST"
        async with browser.request(method, url, data=None if body is None else json.dumps(body), headers=sent) as found:
            assert found.status == 200, await found.text()
            return await found.json()


async def test_the_command_prints_an_address_that_logs_in_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    async with proxied() as (_, proxy), edl_ui(tmp_path, proxy.url) as printed:
        address, _, code = printed.partition("/#code=")
        assert address.startswith("http://127.0.0.1:")
        assert "rita" not in printed
        session = (await ask(f"{address}/api/v1/login", {"code": code}, EDL_Request="1"))["session"]
        found = await ask(f"{address}/api/v1/session", EDL_Token=session)
        assert (found["user"], found["namespaces"], found["cluster"]) == ("rita", ["red"], False)
    assert (tmp_path / "said").read_text() == ""


async def test_without_a_page_in_the_cluster_it_serves_its_own(tmp_path: Path) -> None:
    async with proxied() as (_, proxy):
        proxy.status = 404
        async with edl_ui(tmp_path, proxy.url) as printed:
            assert "/#code=" in printed
        assert "the page is served here, with your rights" in (tmp_path / "said").read_text()
