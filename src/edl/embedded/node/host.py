"""Resources that the nodes of one process share: supervisor, addresses, service directory, events, probe runner."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from edl.embedded.node.network.addresses import AddressPool
from edl.embedded.node.network.service_directory import ServiceDirectory
from edl.embedded.node.pod.images import Images
from edl.embedded.node.pod.types import Pod
from edl.embedded.node.probes.prober import ProbeRunner
from edl.embedded.node.runtime import Runtime
from edl.embedded.node.supervisor.sandbox import MODES
from edl.embedded.resources import PODS
from edl.embedded.tasks import background
from edl.kube.controllers.recorder import EventRecorder, Reference
from edl.kube.rest.client import Client

log = logging.getLogger(__name__)


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`owner` marks the processes: one per directory, the same after a restart, so that what was left can be found."""

    root: Path
    owner: str
    caller: Mapping[str, str]
    working_dir: str
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    """For every container, such as where the API server is."""
    modes: Sequence[str] = MODES


class NodeHost:
    def __init__(
        self,
        client: Client,
        settings: HostSettings,
        runtime: Runtime,
        probe_runner: ProbeRunner,
        recorder: EventRecorder,
    ) -> None:
        self.client = client
        self.settings = settings
        self.runtime = runtime
        self.probe_runner = probe_runner
        self.addresses = AddressPool()
        self.services = ServiceDirectory(client, self.addresses)
        self.images = Images(settings.root / "images.yaml")
        self._recorder = recorder

    def emit_event(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        reference = Reference.to(PODS, pod)
        self._recorder.record(reference, reason, message, kind="Warning" if kind == "Warning" else "Normal")


@asynccontextmanager
async def node_host(client: Client, settings: HostSettings) -> AsyncIterator[NodeHost]:
    """Whatever pods still run when this ends are killed, and gone when it has ended."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        runtime = await stack.enter_async_context(Runtime(owner=settings.owner, modes=settings.modes))
        recorder = EventRecorder(client, controller="edl-node", instance=settings.owner)
        host = NodeHost(client, settings, runtime, ProbeRunner(session), recorder)
        stack.callback(host.addresses.close)
        await stack.enter_async_context(background(recorder.run()))
        await stack.enter_async_context(host.services.running())
        yield host
