"""What all pods of a node share."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from edl.embedded.node.addresses import AddressPool
from edl.embedded.node.devices import Devices
from edl.embedded.node.directory import ServiceDirectory
from edl.embedded.node.gathering import Gatherer
from edl.embedded.node.images import Images
from edl.embedded.node.launching import Settings
from edl.embedded.node.lifecycle import Backoff
from edl.embedded.node.pod import Pod
from edl.embedded.node.probes import Surveyor
from edl.embedded.node.runtime import Runtime


class Announce(Protocol):
    """Says to people what happens to a pod (an Event)."""

    def __call__(self, pod: Pod, kind: str, reason: str, message: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    runtime: Runtime
    surveyor: Surveyor
    gatherer: Gatherer
    directory: ServiceDirectory
    images: Images
    settings: Settings
    addresses: AddressPool
    devices: Devices
    host_ip: str
    root: Path
    """Where the pods' directories are."""
    announce: Announce
    backoff: Backoff = field(default_factory=Backoff)
    clock: Callable[[], float] = time.time
