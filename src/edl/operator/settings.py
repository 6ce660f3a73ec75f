"""Settings of the operator, for administrators. Each has a default that works."""

import os
import socket
import uuid

import msgspec

from edl.jobs.core.pods.pod_builder import PodSettings
from edl.jobs.core.stall import STALLED_AFTER
from edl.scheduler.settings import Settings as SchedulerSettings

NAMESPACE = "edl-system"
LEASE = "edl-operator"
SECRET = "edl-operator"
LEDGER = "edl-ledger"  # the ConfigMap with the cluster's account
SERVICE = "edl-job-service"
SERVICE_PORT = 8443
BRAIN = "edl-brain"  # its Deployment, Service, Secret and claim
BRAIN_PORT = 8500
METRICS_PATH = "/metrics"
METRICS_TOKEN = "metrics-token"  # in Brain's Secret: what who collects Brain's metrics shows it
READER_TOKEN = "reader-token"  # beside it: with it the page reads the history, and can do nothing else
TRUSTED = "trusted.crt"  # in the operators' Secret: the authorities that clients trust, for those who collect metrics
WEBHOOK = "edl-operator"  # the Service by which API servers reach it, and its configuration


def cluster_name(name: str, namespace: str, *, limited: bool) -> str:
    """What an installation calls an object that is in no namespace. Of those limited to namespaces of their own there
    may be several; so theirs carry where they are, but for the one in the default namespace."""
    return f"{name}-{namespace}" if limited and namespace != NAMESPACE else name


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
    logs: bool = False
    """Pods send it what they write, which is gone with them elsewhere."""


class OperatorSettings(msgspec.Struct, frozen=True):
    """`probes`: where /healthz and /readyz are served. `lease`: how long leadership outlives a silent leader.

    `metrics`: where /metrics is served over TLS to whom the cluster lets see it; None: with the probes, to anybody.

    `service` None: pods get no job service. `webhook`: where API servers may have jobs checked, if anywhere.
    `own_brain`: trainers use the Brain installed with the operators, whose Secret operators make; else `brain`.
    """

    namespace: str = NAMESPACE
    namespaces: tuple[str, ...] = ()
    """Where jobs are looked after; none: everywhere."""
    identity: str = ""
    lease: float = 15.0
    workers: int = 16
    interval: float = 5.0
    debounce: float = 0.08
    settle: float = 0.6
    """How long a change of status that may wait does wait for more of its kind."""
    stalled_after: float = STALLED_AFTER
    """Seconds without progress after which a running job is Stalled, unless it says otherwise; 0: never."""
    probes: tuple[str, int] | None = None
    metrics: tuple[str, int] | None = None
    pods: PodSettings = PodSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    service: ServiceSettings | None = ServiceSettings()
    webhook: tuple[str, int] | None = None
    brain: BrainSettings | None = None
    own_brain: bool = False
    register_crds: bool = True
    authority_secret: str = ""
    """A Secret of the namespace with the authority that issues certificates; '': operators make one."""

    @property
    def webhook_configuration(self) -> str:
        return cluster_name(WEBHOOK, self.namespace, limited=bool(self.namespaces))

    def who(self) -> str:
        """Unique per process: a restart is another one."""
        return self.identity or f"{os.environ.get('POD_NAME') or socket.gethostname()}-{uuid.uuid4().hex[:8]}"
