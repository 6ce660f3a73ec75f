"""Pods as a node reads them: the shared types, and all that says how to run one (volumes, probes, environment)."""

from typing import Any

import msgspec

from edl.api.kubernetes import pod_network
from edl.api.kubernetes.meta import ObjectMeta, Wire


class Metadata(ObjectMeta, frozen=True):
    deletion_grace_period_seconds: int | None = None


class KeyReference(Wire, frozen=True):
    """A key of a ConfigMap or Secret; without a key, all of it."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldReference(Wire, frozen=True):
    field_path: str = ""


class ResourceReference(Wire, frozen=True):
    resource: str = ""
    container_name: str = ""
    divisor: str | int | float = 0


class ValueSource(Wire, frozen=True):
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    config_map_key_ref: KeyReference | None = None
    secret_key_ref: KeyReference | None = None


class Variable(Wire, frozen=True):
    name: str = ""
    value: str = ""
    value_from: ValueSource | None = None


class VariablesFrom(Wire, frozen=True):
    prefix: str = ""
    config_map_ref: KeyReference | None = None
    secret_ref: KeyReference | None = None


class VolumeMount(Wire, frozen=True):
    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class ExecAction(Wire, frozen=True):
    command: tuple[str, ...] = ()


class Header(Wire, frozen=True):
    name: str = ""
    value: str = ""


class NetworkAction(Wire, frozen=True):
    """httpGet, tcpSocket and grpc: the port is a number or the name of one of the container's."""

    port: int | str = 0
    host: str = ""
    path: str = "/"
    scheme: str = "HTTP"
    http_headers: tuple[Header, ...] = ()


class SleepAction(Wire, frozen=True):
    seconds: int = 0


class Action(Wire, frozen=True):
    exec: ExecAction | None = None
    http_get: NetworkAction | None = None
    tcp_socket: NetworkAction | None = None
    grpc: NetworkAction | None = None
    sleep: SleepAction | None = None


class Probe(Action, frozen=True):
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Hooks(Wire, frozen=True):
    post_start: Action | None = None
    pre_stop: Action | None = None


class Container(pod_network.Container, frozen=True):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariablesFrom, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Hooks = Hooks()
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"


class KeyToPath(Wire, frozen=True):
    key: str = ""
    path: str = ""
    mode: int | None = None


class DownwardFile(Wire, frozen=True):
    path: str = ""
    mode: int | None = None
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None


class TokenSource(Wire, frozen=True):
    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class FileSource(Wire, frozen=True):
    """configMap, secret and downwardAPI, as a volume or as a part of a projected one."""

    name: str = ""
    secret_name: str = ""
    items: tuple[Any, ...] = ()
    optional: bool = False
    default_mode: int = 0o644


class ProjectedSource(Wire, frozen=True):
    config_map: FileSource | None = None
    secret: FileSource | None = None
    downward_api: FileSource | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenSource | None = None


class Projected(Wire, frozen=True):
    sources: tuple[ProjectedSource, ...] = ()
    default_mode: int = 0o644


class HostPath(Wire, frozen=True):
    path: str = ""
    type: str = ""


class EmptyDir(Wire, frozen=True):
    medium: str = ""


class Volume(Wire, frozen=True):
    name: str = ""
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    config_map: FileSource | None = None
    secret: FileSource | None = None
    downward_api: FileSource | None = msgspec.field(default=None, name="downwardAPI")
    projected: Projected | None = None

    @property
    def files(self) -> Projected | None:
        """What fills the volume with files, in one shape for all that do."""
        if self.projected is not None:
            return self.projected
        source = self.config_map or self.secret or self.downward_api
        if source is None:
            return None
        part = ProjectedSource(config_map=self.config_map, secret=self.secret, downward_api=self.downward_api)
        return Projected((part,), source.default_mode)


class ReadinessGate(Wire, frozen=True):
    condition_type: str = ""


class HostAlias(Wire, frozen=True):
    ip: str = ""
    hostnames: tuple[str, ...] = ()


class PodSpec(pod_network.PodSpec, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    set_hostname_as_fqdn: bool = msgspec.field(default=False, name="setHostnameAsFQDN")
    host_network: bool = False
    host_aliases: tuple[HostAlias, ...] = ()
    enable_service_links: bool = True
    service_account_name: str = "default"
    readiness_gates: tuple[ReadinessGate, ...] = ()


class Pod(pod_network.Pod, frozen=True):
    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()

    @property
    def hostname(self) -> str:
        return self.spec.hostname or self.metadata.name[:63].rstrip("-.")

    def container(self, name: str) -> Container | None:
        both = (*self.spec.init_containers, *self.spec.containers)
        return next((container for container in both if container.name == name), None)
