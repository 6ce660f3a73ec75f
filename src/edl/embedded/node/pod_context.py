"""Dependencies that all pods of a node share."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from edl.embedded.node.network.addresses import AddressPool
from edl.embedded.node.network.service_directory import ServiceDirectory
from edl.embedded.node.pod.devices import Devices
from edl.embedded.node.pod.images import Images
from edl.embedded.node.pod.launch import LaunchSettings
from edl.embedded.node.pod.lifecycle import Backoff
from edl.embedded.node.pod.references import ReferenceResolver
from edl.embedded.node.pod.types import Pod
from edl.embedded.node.pressure import Pressure
from edl.embedded.node.probes.prober import ProbeRunner
from edl.embedded.node.runtime import Runtime


class EmitEvent(Protocol):
    """Records a Kubernetes Event about a pod."""

    def __call__(self, pod: Pod, kind: str, reason: str, message: str) -> None: ...


class PodContext(msgspec.Struct, frozen=True, kw_only=True):
    runtime: Runtime
    probe_runner: ProbeRunner
    references: ReferenceResolver
    services: ServiceDirectory
    images: Images
    settings: LaunchSettings
    addresses: AddressPool
    devices: Devices
    host_ip: str
    root: Path
    """Where the pods' directories are."""
    emit_event: EmitEvent
    keep_log: Callable[[Pod, Path], None] = lambda pod, log: None
    """Called with the log of a pod that goes, before its directory does."""
    backoff: Backoff = msgspec.field(default_factory=Backoff)
    pressure: Pressure = msgspec.field(default_factory=Pressure)
    clock: Callable[[], float] = time.time
