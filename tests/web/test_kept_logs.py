"""Logs that Brain keeps, through the page: `edl logs` finds them with a kubeconfig alone, for whom it may read there.

The API server's proxy is played as in `test_tunnel`; page, Brain, tunnel and command are the real ones.
"""

import asyncio
import contextlib
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from edl import client
from edl.brain.log_store import LogStore
from edl.brain.server import Brain
from edl.brain.sqlite import SqliteDatabase
from edl.brain.store import Store
from edl.brain.tokens import READER, mint
from edl.cli.main import main
from edl.protocol.kept_logs import LogChunk
from edl.web.kept_logs import AT_ONCE
from edl.web.model.history import BrainHistory
from tests.web.test_tunnel import BASE, Proxy
from tests.web.world import KIND, Data, World, only_in, world

KEY = b"a key for tests only"
LINES = "2026-11-18T01:00:00.5Z step 1\n2026-11-18T01:00:07.5Z step 2\n"
Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("EDL_BRAIN_URL", "EDL_BRAIN_TOKEN", "EDL_BRAIN_KEY", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EDL_HOME", str(tmp_path / "home"))


class Kept:
    """Two jobs whose pods are gone, `mine` in red and `theirs` in blue. A Brain has their logs."""

    def __init__(self, there: World, jobs: dict[str, Data]) -> None:
        self.there, self.jobs = there, jobs

    def path(self, name: str, pod: str = "", uid: str = "") -> str:
        meta = self.jobs[name]["metadata"]
        text = f"/{pod}?uid={uid or meta['uid']}" if pod else ""
        return f"jobs/{KIND}/{meta['namespace']}/{name}/logs{text}"


@contextlib.asynccontextmanager
async def kept(tmp_path: Path, *, history: bool = True) -> AsyncIterator[Kept]:
    database = SqliteDatabase(str(tmp_path / "brain.db"))
    await database.open()
    store = LogStore(database)
    runner = await Brain(Store(database), KEY, logs=store).serve("127.0.0.1", 0)
    brain = BrainHistory(f"http://127.0.0.1:{runner.addresses[0][1]}", lambda: mint(KEY, READER))
    try:
        async with world(history=brain if history else None) as there:
            jobs: dict[str, Data] = {}
            for name, namespace in (("mine", "red"), ("theirs", "blue")):
                await there.namespace(namespace)
                slots = [{"role": "trainer", "peak": 1}]
                jobs[name] = await there.job(name, namespace, slots=slots)
                chunk = LogChunk(pod=f"{name}-trainer-0", number=1, lines=LINES)
                await store.add((namespace, name, jobs[name]["metadata"]["uid"]), chunk, 1.0)
            await there.shown("mine", "theirs")
            there.api.users["rita"] = only_in("red")
            yield Kept(there, jobs)
    finally:
        await runner.cleanup()
        await database.close()


async def test_whoever_may_read_logs_of_pods_reads_those_of_pods_that_are_gone(tmp_path: Path) -> None:
    async with kept(tmp_path) as found:
        status, listed = await found.there.get(found.path("mine"), token="rita")
        assert status == 200
        uid = found.jobs["mine"]["metadata"]["uid"]
        assert [(one["pod"], one["uid"]) for one in listed["logs"]] == [("mine-trainer-0", uid)]
        status, text = await found.there.get(found.path("mine", "mine-trainer-0"), token="rita")
        assert (status, text) == (200, LINES.encode())


async def test_a_deleted_job_s_are_read_by_its_name(tmp_path: Path) -> None:
    async with kept(tmp_path) as found:
        assert (await found.there.ask("GET", f"/api/v1/{found.path('mine')}?uid=another", token="rita"))[1] == {
            "logs": []
        }
        found.jobs["mine"]["metadata"]["name"] = "other"
        assert len((await found.there.get(found.path("mine"), token="rita"))[1]["logs"]) == 1


async def test_nobody_reads_those_of_a_namespace_where_they_may_not_read_logs(tmp_path: Path) -> None:
    async with kept(tmp_path) as found:
        there, foreign = found.there, found.jobs["theirs"]["metadata"]["uid"]
        paths = [
            found.path("theirs"),
            found.path("theirs", "theirs-trainer-0"),
            f"jobs/{KIND}/red%2F..%2Fblue/theirs/logs",
            f"jobs/{KIND}/red/..%2F..%2Fblue%2Ftheirs/logs?uid={foreign}",
            f"jobs/{KIND}/red/mine/logs?uid=..%2F..%2F..%2Fblue%2Ftheirs",
            f"jobs/no-kind/red/mine/logs?uid={foreign}",
        ]
        for path in paths:
            status, said = await there.get(path, token="rita")
            assert (status, said["code"]) == (404, "not-found"), path
        for path in (found.path("mine", "theirs-trainer-0", foreign), found.path("mine", "mine-trainer-0", foreign)):
            assert await there.get(path, token="rita") == (200, b""), "a uid opens nothing of another namespace"
        assert (await there.get(found.path("mine", "..%2F..%2Fx"), token="rita"))[0] == 400
        there.api.users["jo"] = lambda asked: asked.get("subresource") != "log"
        for path in (found.path("mine"), found.path("mine", "mine-trainer-0")):
            status, said = await there.get(path, token="jo")
            assert (status, said["code"]) == (403, "forbidden")
            assert "get pods/log" in said["error"]
        for token in ("", "unknown"):
            assert (await there.get(found.path("mine"), token=token))[0] == 401


async def test_a_page_without_a_brain_says_so(tmp_path: Path) -> None:
    async with kept(tmp_path, history=False) as found:
        status, said = await found.there.get(found.path("mine"), token="rita")
        assert (status, said["code"]) == (404, "not-found")
        assert "no Brain is installed" in said["error"]


async def test_not_everybody_reads_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read is in memory meanwhile."""
    go = asyncio.Event()
    asked: list[str] = []

    async def slow(self: BrainHistory, job: str, pod: str) -> str:
        asked.append(pod)
        await go.wait()
        return LINES

    monkeypatch.setattr(BrainHistory, "log", slow)
    async with kept(tmp_path) as found:
        path = found.path("mine", "mine-trainer-0")
        reading = [asyncio.create_task(found.there.get(path)) for _ in range(AT_ONCE)]
        await found.there.until(lambda: len(asked) == AT_ONCE, "all are being read")
        status, said = await found.there.get(path)
        assert (status, said["code"]) == (429, "too-many")
        go.set()
        assert {status for status, _ in await asyncio.gather(*reading)} == {200}
        assert (await found.there.get(path))[0] == 200


# The command.


class Front(Proxy):
    """Answers everything that is not for the page as an API server does."""

    def __init__(self, there: World, session: aiohttp.ClientSession) -> None:
        super().__init__(there.url, session)
        self._api, self._through = there.api_url, session

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.raw_path.startswith(BASE):
            return await super().handle(request)
        headers = {"Authorization": "Bearer t", "Accept": request.headers.get("Accept", "*/*")}
        async with self._through.get(self._api + request.raw_path, headers=headers) as answer:
            return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)


@contextlib.asynccontextmanager
async def command(tmp_path: Path, found: Kept, user: Data | None = None) -> AsyncIterator[tuple[Front, Run]]:
    """`edl` with a kubeconfig, in a thread."""
    async with aiohttp.ClientSession() as session:
        front = Front(found.there, session)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", front.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
            "users": [{"name": "u", "user": user or {"token": "rita"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))

        async def run(*words: str) -> int:
            return await asyncio.to_thread(main, [*words, "--kubeconfig", str(tmp_path / "config")])

        try:
            yield front, run
        finally:
            await runner.cleanup()


async def test_edl_logs_finds_them_with_a_kubeconfig_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with kept(tmp_path) as found, command(tmp_path, found) as (front, edl):
        assert await edl("logs", "mine", "-n", "red") == 0
        out, said = capsys.readouterr()
        assert out == "step 1\nstep 2\n"
        assert said == ""
        assert await edl("logs", "mine", "-n", "red", "--tail", "1", "--timestamps") == 0
        assert capsys.readouterr().out == "2026-11-18T01:00:07.5Z step 2\n"
        assert not any("rita" in path for path, _ in front.asked), "no secret in an address"


async def test_so_does_a_job_in_python(tmp_path: Path) -> None:
    def read() -> tuple[list[str], list[str]]:
        job = client.get("mine", namespace="red", kubeconfig=str(tmp_path / "config"))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            return list(job.logs()), [str(one.message) for one in said]

    async with kept(tmp_path) as found, command(tmp_path, found) as (front, _):
        assert await asyncio.to_thread(read) == (["step 1", "step 2"], [])
        front.status = 404
        why = "there is no Service edl-web in namespace edl-system; `edl install --web` brings it"
        gone = f"gone with their pods: the logs of mine-trainer-0: {why}"
        assert await asyncio.to_thread(read) == ([], [gone])


WHY = [
    ({"status": 404}, {}, "there is no Service edl-web in namespace edl-system; `edl install --web` brings it"),
    ({"status": 403}, {}, "you may not get services/proxy of edl-web in namespace edl-system; its Role edl-web"),
    ({"status": 503}, {}, "edl-web in namespace edl-system does not answer: 503"),
    ({}, {"subresource": "log"}, "the page of the cluster refuses: you may not read logs in this namespace"),
]


@pytest.mark.parametrize(("front", "denied", "why"), WHY, ids=["no page", "no way in", "away", "no right"])
async def test_where_it_cannot_it_says_what_is_gone_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], front: Data, denied: Data, why: str
) -> None:
    async with kept(tmp_path) as found, command(tmp_path, found) as (proxy, edl):
        proxy.status = front.get("status", 0)
        if denied:
            found.there.api.users["rita"] = lambda asked: asked.get("subresource") != "log"
        assert await edl("logs", "mine", "-n", "red") == 1
        out, said = capsys.readouterr()
        assert out == ""
        assert why in said
        assert "kubectl -n edl-system exec deploy/edl-brain -- edl brain logs red/mine" in said


async def test_a_user_without_a_token_of_their_own_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with kept(tmp_path) as found, command(tmp_path, found, {"token": "rita", "as": "bob"}) as (front, edl):
        assert await edl("logs", "mine", "-n", "red") == 1
        assert "your kubeconfig has no token of your own for the page" in capsys.readouterr().err
        assert front.asked == []
