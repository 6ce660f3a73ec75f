"""What the nodes of one process share: the supervisor, addresses, the directory of services, events, credentials."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from edl.embedded.node.addresses import AddressPool
from edl.embedded.node.directory import ServiceDirectory
from edl.embedded.node.images import Images
from edl.embedded.node.pod import Pod
from edl.embedded.node.probes import Surveyor
from edl.embedded.node.reporting import PODS
from edl.embedded.node.runtime import Runtime
from edl.embedded.node.supervisor.sandbox import MODES
from edl.embedded.tasks import background
from edl.kube.client import Client
from edl.kube.recorder import EventRecorder, Reference

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """`owner` marks the processes: one per directory, the same after a restart, so that what was left can be found."""

    root: Path
    owner: str
    caller: Mapping[str, str]
    working_dir: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """For every container, such as where the API server is."""
    modes: Sequence[str] = MODES


class NodeHost:
    def __init__(
        self, client: Client, settings: HostSettings, runtime: Runtime, surveyor: Surveyor, recorder: EventRecorder
    ) -> None:
        self.client = client
        self.settings = settings
        self.runtime = runtime
        self.surveyor = surveyor
        self.addresses = AddressPool()
        self.directory = ServiceDirectory(client, self.addresses)
        self.images = Images(settings.root / "images.yaml")
        self._recorder = recorder

    def announce(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        reference = Reference.to(PODS, pod)
        self._recorder.record(reference, reason, message, kind="Warning" if kind == "Warning" else "Normal")


@asynccontextmanager
async def node_host(client: Client, settings: HostSettings) -> AsyncIterator[NodeHost]:
    """Whatever pods still run when this ends are killed, and gone when it has ended."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        runtime = await stack.enter_async_context(Runtime(owner=settings.owner, modes=settings.modes))
        recorder = EventRecorder(client, controller="edl-node", instance=settings.owner)
        host = NodeHost(client, settings, runtime, Surveyor(session), recorder)
        stack.callback(host.addresses.close)
        await stack.enter_async_context(background(recorder.run()))
        await stack.enter_async_context(host.directory.running())
        yield host
