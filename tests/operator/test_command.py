"""`edl operator` as a process: it starts, answers probes, works, and shuts down in order."""

import asyncio
import contextlib
import signal
import sys
from argparse import ArgumentParser
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from edl.cli.commands.services import operator as command
from edl.cli.local.admission import edl_rules
from edl.embedded.server import ADMIN, Server
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.transport import Request
from edl.operator.settings import LEASE, NAMESPACE, OperatorSettings
from tests.operator.stage import PATIENCE, TOKEN, Stage, stage
from tests.ports import free_port


def api_server(path: Path, port: int) -> Server:
    return Server(path, port=port, tokens={TOKEN: ADMIN}, custom_admission=edl_rules)


def kubeconfig(url: str, directory: Path) -> Path:
    path = directory / "kubeconfig"
    path.write_text(
        f"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\nusers: [{{name: u, user: {{token: {TOKEN}}}}}]\n"
    )
    return path


@contextlib.asynccontextmanager
async def process(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edl.cli.main", "operator", *words, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield made
    finally:
        if made.returncode is None:
            made.kill()
        await made.communicate()


async def answer(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    async with session.get(url) as found:
                        return found.status, await found.text()
                except aiohttp.ClientConnectorError:
                    await asyncio.sleep(0.05)


async def test_it_works_tells_and_ends_in_good_order(tmp_path: Path) -> None:
    port = free_port()
    async with stage() as scene:
        words = ["--kubeconfig", str(kubeconfig(scene.url, tmp_path)), "--probes", f"127.0.0.1:{port}"]
        service = ["--service", "127.0.0.1:0", "--service-url", "https://127.0.0.1:{port}"]
        async with process(*words, *service, "--lease", "5") as running:
            await _until_leading(port)
            scene.registered = True
            await scene.submit()
            await scene.until_phase("running")
            _, metrics = await answer(f"http://127.0.0.1:{port}/metrics")
            assert 'edl_jobs{kind="tj",namespace="default",phase="running"} 1.0' in metrics
            assert 'edl_job_size{kind="tj",name="j",namespace="default"} 2.0' in metrics
            assert "edl_cycle_seconds_count" in metrics
            running.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                _, log = await running.communicate()
            assert running.returncode == 0, log.decode()
            assert b"cycle: 1 jobs" in log, "each cycle that changed something is one line"
        lease = await scene.client.get(LEASES, LEASE, namespace=NAMESPACE)
        assert not lease["spec"].get("holderIdentity"), "given back: the next one leads at once"
        async with scene.operator():
            pass


async def _until_leading(port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            status, text = await answer(f"http://127.0.0.1:{port}/readyz")
            if status == 200 and "leading: True" in text:
                return
            await asyncio.sleep(0.05)


async def test_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    async with process(
        "--kubeconfig", str(kubeconfig(f"http://127.0.0.1:{free_port()}", tmp_path)), "--no-service"
    ) as made:
        async with asyncio.timeout(2 * PATIENCE):
            _, log = await made.communicate()
        assert made.returncode == 3
        assert b"cannot reach http://127.0.0.1" in log


async def test_it_goes_on_when_the_api_server_was_away(tmp_path: Path) -> None:
    port = free_port()
    path = tmp_path / "store"
    config = str(kubeconfig(f"http://127.0.0.1:{port}", tmp_path))
    async with process("--kubeconfig", config, "--no-service", "--lease", "30"):
        async with (
            api_server(path, port) as server,
            playing(server) as scene,
        ):
            await scene.add_node("n1")
            await scene.until(lambda: _served(scene), "the kinds are registered")
            await scene.submit("before")
            await scene.until_phase("running", "before")
        await asyncio.sleep(0.5)
        async with (
            api_server(path, port) as server,
            playing(server) as scene,
        ):
            scene.registered = True
            await scene.submit("after")
            await scene.until_phase("running", "after")
            assert (await scene.status("before"))["phase"] == "running"


@contextlib.asynccontextmanager
async def playing(server: Server) -> AsyncIterator[Stage]:
    scene = Stage(server)
    hand = asyncio.create_task(scene.work())
    try:
        yield scene
    finally:
        hand.cancel()
        await asyncio.gather(hand, return_exceptions=True)


async def _served(scene: Stage) -> bool:
    page = await scene.client.raw(Request("GET", "/apis"))
    scene.registered = b"paddlepaddle.org" in page.body
    return scene.registered


def settings(*words: str) -> OperatorSettings:
    parser = ArgumentParser()
    command.arguments(parser)
    return command.settings_of(parser.parse_args(list(words)))


def test_options_become_settings() -> None:
    chosen = settings(
        "--no-service", "--policy", "fulfillment", "--max-load", "0.9", "--image", "mine:1", "--probes", "[::1]:80"
    )
    assert (chosen.scheduler.policy, chosen.scheduler.max_load, chosen.service) == ("fulfillment", "0.9", None)
    assert (chosen.pods.installation.image, chosen.probes) == ("mine:1", ("::1", 80))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--service", "8443"], "--service 8443: wants HOST:PORT"),
        (["--max-load", "1.5", "--no-service"], "max load '1.5'"),
        (["--service-address", ""], "pods must know where the job service is"),
    ],
)
def test_options_that_cannot_be(words: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        settings(*words)
