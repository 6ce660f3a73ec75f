"""The page beside a local cluster: on loopback, for whoever has the cluster's token. Its caches fill at the first look.

`web.url` in the home says where it is; its port stays the same from one `edl up` to the next if it is free.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from edl.cli.connect.progress import ProgressReader
from edl.embedded.cluster import EmbeddedCluster
from edl.embedded.server.http.direct import direct_transport
from edl.jobs.registry import JOB_KIND_BY_CRD
from edl.kube.auth.kubeconfig import load_client_config
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import HttpTransport
from edl.operator.reconcile.job_key import JobKey
from edl.protocol.progress import Progress
from edl.serving.lasting_port import port_in, serve_again
from edl.web.access.origin import LOOPBACK
from edl.web.access.sessions import CODE_SECONDS, Grant, Sessions
from edl.web.access.viewers import LocalDoor
from edl.web.model.history import BrainHistory, History, NoHistory, key_file
from edl.web.model.state import ClusterState
from edl.web.server import WebServer, WebSettings

log = logging.getLogger(__name__)

FILE = "web.url"
FIRST_LOOK = 5.0  # seconds that the first call waits for the caches


class _Caches:
    """Fills the caches once somebody looks."""

    def __init__(self, state: ClusterState, stack: AsyncExitStack) -> None:
        self._state, self._stack = state, stack
        self._begun: asyncio.Task[None] | None = None

    async def __call__(self) -> None:
        if self._begun is None:
            self._begun = asyncio.create_task(self._begin())
        await asyncio.shield(self._begun)

    async def _begin(self) -> None:
        await self._stack.enter_async_context(self._state.running())
        try:
            async with asyncio.timeout(FIRST_LOOK):
                await self._state.wait_synced()
        except TimeoutError:
            log.warning("the page's caches are not filled after %g s", FIRST_LOOK)


class ProgressOf:
    """Progress as the job service has it, with the cluster's own credential."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._readers: dict[JobKey, ProgressReader] = {}

    async def __call__(self, key: JobKey) -> Progress | None:
        if len(self._readers) > 100:
            self._readers.clear()
        reader = self._readers.get(key)
        if reader is None:
            kind = JOB_KIND_BY_CRD[key.kind]
            reader = self._readers[key] = ProgressReader(self._client, kind, key.namespace, key.name)
        return await reader.read()


class LocalPage(msgspec.Struct, frozen=True):
    """Where the page is. `login` is an address that logs in once, within so many seconds."""

    url: str
    sessions: Sessions
    token: str

    def login(self, *, seconds: float = CODE_SECONDS, acts: bool = False) -> str:
        return f"{self.url}/#code={self.sessions.code(Grant(self.token, acts=acts), seconds=seconds)}"


@asynccontextmanager
async def web(cluster: EmbeddedCluster, *, from_the_start: bool = False) -> AsyncIterator[LocalPage]:
    """Serves the page until the block ends. `from_the_start`: its curves are to begin now, not with the first look."""
    direct = Client(direct_transport(cluster.server.api), rate_limiter=RateLimiter(qps=10_000, burst=10_000))
    viewer = Client(HttpTransport(load_client_config(cluster.kubeconfig)), field_manager="edl-web")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(viewer.close)
        state, sessions = ClusterState(direct), Sessions()
        wake = _Caches(state, stack)
        server = WebServer(
            state,
            LocalDoor(cluster.token, viewer),
            WebSettings(hosts=LOOPBACK, actions=True),
            progress=ProgressOf(direct),
            history=await asyncio.to_thread(history_at, cluster.home.path),
            sessions=sessions,
            wake=wake,
        )
        url = await listen(server, cluster.home.path / FILE, stack)
        if from_the_start:
            await wake()
            following = asyncio.create_task(server.progress.follow_all())
            stack.callback(following.cancel)
        yield LocalPage(url, sessions, cluster.token)


async def listen(server: WebServer, file: Path, stack: AsyncExitStack) -> str:
    """Where it was last time, else where it can be again; `file` says where, also to the next one."""
    known = await asyncio.to_thread(port_in, file)
    runner = await serve_again(lambda port: server.serve("127.0.0.1", port), "127.0.0.1", known)
    stack.push_async_callback(runner.cleanup)
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    await asyncio.to_thread(file.write_text, url)
    return url


def history_at(home: Path) -> History:
    """Brain beside the cluster, if there is one."""
    try:
        return BrainHistory((home / "brain.url").read_text().strip(), key_file(home / "brain.key"))
    except (OSError, ValueError):
        return NoHistory()
