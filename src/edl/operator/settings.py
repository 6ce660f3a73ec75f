"""What an administrator may choose about the operator. Everything has a default that works."""

import os
import socket
import uuid

import msgspec

from edl.jobs.pods import PodSettings
from edl.scheduler.settings import Settings as SchedulerSettings

NAMESPACE = "edl-system"
LEASE = "edl-operator"
SECRET = "edl-operator"
SERVICE = "edl-job-service"
SERVICE_PORT = 8443
BRAIN = "edl-brain"  # its Deployment, Service, Secret and claim
BRAIN_PORT = 8500
WEBHOOK = "edl-operator"  # the Service by which API servers reach it, and its configuration


class ServiceSettings(msgspec.Struct, frozen=True):
    """Where the job service listens and how pods reach it.

    `url` empty: through the Kubernetes Service `edl-job-service`, whose EndpointSlice names `address` (the pod's own).
    `{port}` in `url` stands for the port that is really listened on.
    """

    host: str = "0.0.0.0"
    port: int = SERVICE_PORT
    url: str = ""
    address: str = ""


class BrainSettings(msgspec.Struct, frozen=True):
    """Where trainers find Brain, and the key that their tokens are made with. `ca`: PEM, if it is not a public one."""

    url: str
    key: bytes
    ca: str = ""


class OperatorSettings(msgspec.Struct, frozen=True):
    """`probes`: where /healthz, /readyz and /metrics are served. `lease`: how long leadership outlives a silent leader.

    `service` None: pods are told of no job service. `webhook`: where API servers may have jobs checked, if anywhere.
    `own_brain`: trainers are told of the Brain beside the operators, whose Secret operators make; else of `brain`.
    """

    namespace: str = NAMESPACE
    identity: str = ""
    lease: float = 15.0
    workers: int = 16
    interval: float = 5.0
    debounce: float = 0.08
    settle: float = 0.6
    """How long a change of status that may wait does wait for more of its kind."""
    probes: tuple[str, int] | None = None
    pods: PodSettings = PodSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    service: ServiceSettings | None = ServiceSettings()
    webhook: tuple[str, int] | None = None
    brain: BrainSettings | None = None
    own_brain: bool = False
    register_crds: bool = True

    def who(self) -> str:
        """Unique per process: a restart is another one."""
        return self.identity or f"{os.environ.get('POD_NAME') or socket.gethostname()}-{uuid.uuid4().hex[:8]}"
