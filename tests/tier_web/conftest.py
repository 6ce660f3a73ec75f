"""One embedded cluster with real jobs and one Chromium for all tests of the tier."""

import asyncio
import contextlib
import shlex
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from edl.cli.local.admission import edl_groups, edl_rules
from edl.cli.local.services import operator_with_brain
from edl.cli.local.web import web
from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.jobs.registry import TRAINING_JOB
from edl.operator.resources import resource_of
from tests.tier_web.browser import Browser, browser

JOBS = resource_of(TRAINING_JOB)
T = TypeVar("T")
LONG = 1 << 20
HOSTILE = '<img src=x onerror="document.title=1"> \x1b[31mred\x1b[0m "quoted"'
REPORTING = (
    "import sys, time\n"
    "from edl.progress import Progress\n"
    f"print({HOSTILE!r}, flush=True)\n"
    f"print('L' * {LONG}, flush=True)\n"
    "progress = Progress(total=2000, every=1.0)\n"
    "step = 0\n"
    "while True:\n"
    "    step += 1\n"
    "    progress.add(samples=100, loss=4.0 / step ** 0.5)\n"
    "    print(f'line {step}', flush=True)\n"
    "    time.sleep(0.25)\n"
)


def job(name: str, entrypoint: str, *, least: int = 1, most: int = 3) -> dict[str, Any]:
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "fault_tolerant": True,
            "freezing_window": "1s",
            "master": {"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}},
            "trainer": {
                "entrypoint": entrypoint,
                "min-instance": least,
                "max-instance": most,
                "resources": {"requests": {"cpu": "1", "memory": "32Mi"}},
            },
        },
    }


class Cluster:
    """The cluster runs in a thread of its own; tests drive the browser from theirs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: EmbeddedCluster, url: str) -> None:
        self._loop, self._cluster, self.url = loop, cluster, url

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60.0)

    def submit(self, body: dict[str, Any]) -> None:
        self.run(self._cluster.client.create(JOBS, body, namespace="default"))

    def delete(self, name: str) -> None:
        self.run(self._cluster.client.delete(JOBS, name, namespace="default"))

    def get(self, name: str) -> dict[str, Any]:
        return self.run(self._cluster.client.get(JOBS, name, namespace="default"))

    def login(self, *, actions: bool = False) -> str:
        """An address that logs in, as `edl ui` prints it."""
        return f"{self.url}/#code={self.run(self._code(actions))}"

    async def _code(self, actions: bool) -> str:
        import aiohttp

        headers = {"Authorization": f"Bearer {self._cluster.token}", "EDL-Request": "1"}
        where = f"{self.url}/api/v1/codes{'?actions=1' if actions else ''}"
        async with aiohttp.ClientSession() as session, session.post(where, headers=headers) as answer:
            return str((await answer.json())["code"])


@contextlib.contextmanager
def in_thread(main: Callable[[asyncio.Event, "asyncio.Future[Any]"], Coroutine[Any, Any, None]]) -> Iterator[Any]:
    """Runs `main(stop, ready)` on a loop of its own until the block ends."""
    loop = asyncio.new_event_loop()
    stop, ready = asyncio.Event(), loop.create_future()
    thread = threading.Thread(target=lambda: loop.run_until_complete(main(stop, ready)), daemon=True)
    thread.start()
    try:
        end = time.monotonic() + 60
        while not ready.done() and thread.is_alive() and time.monotonic() < end:
            time.sleep(0.02)
        assert ready.done(), "it never began"
        yield ready.result()
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home: Path = tmp_path_factory.mktemp("cluster")

    async def main(stop: asyncio.Event, ready: "asyncio.Future[Any]") -> None:
        loop, found = asyncio.get_running_loop(), [""]

        @contextlib.asynccontextmanager
        async def page(there: EmbeddedCluster) -> Any:
            async with web(there) as page:
                found[0] = page.url
                yield

        async with embedded_cluster(
            home=home,
            nodes=2,
            cpu="4",
            memory="4Gi",
            gpu=2,
            admission=edl_rules,
            pod_groups=edl_groups,
            services=[operator_with_brain, page],
        ) as there:
            ready.set_result(Cluster(loop, there, found[0]))
            await stop.wait()

    with in_thread(main) as running:
        script = home / "train.py"
        script.write_text(REPORTING)
        run = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(script))}"
        running.submit(job("steady", run))
        running.submit(job("broken", "echo no such batch >&2; exit 3", most=1))
        running.submit(job("huge", "sleep 1", least=40, most=50))
        yield running


@pytest.fixture(scope="session")
def _chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture
def page(_chromium: Browser, cluster: Cluster) -> Iterator[Browser]:
    """Logged in, at the list of jobs. Afterwards: it asked nobody else for anything, and complained of nothing."""
    _chromium.resize(1400, 900)
    _chromium.prefer("light")
    _chromium.asked()
    _chromium.complaints()
    _chromium.open(cluster.login())
    _chromium.until_text("jobs", "#total")
    yield _chromium
    others = [one for one in _chromium.asked() if not one.startswith((_chromium.origin, "data:", "about:"))]
    assert others == []
    assert _chromium.complaints() == []
