"""Environment variables that the operator sets in the pods of a job, read once and checked where they are used."""

import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MASTER_PORT = 8080
PSERVER_PORT = 7164


class SettingError(Exception):
    """A variable is missing or cannot be used; the message names it and says what it should be."""


@dataclass(frozen=True)
class Environment:
    namespace: str = ""
    job: str = ""
    uid: str = ""
    token: str = ""
    service_url: str = ""
    service_ca: str = ""
    pod: str = ""
    pod_ip: str = ""
    role: str = ""
    index: int | None = None
    trainers: int = 1  # of a job without a master, whose number is fixed
    master: str = ""  # host:port
    pserver_port: int = PSERVER_PORT
    pserver_ports: int = 1  # how many, from the first one on
    checkpoints: str = ""
    restored_from: str = ""  # the uid under which the job was known before it was restored on another cluster
    passes: int = 1
    task_lease: float = 16.0
    checkpoint_seconds: float = 30.0
    usage_seconds: float = 5.0
    brain_url: str = ""
    brain_token: str = ""
    brain_ca: str = ""
    plan_seconds: float = 30.0
    plan_settings: str = ""

    @classmethod
    def read(cls, env: Mapping[str, str]) -> "Environment":
        return cls(
            namespace=env.get("EDL_JOB_NAMESPACE", ""),
            job=env.get("EDL_JOB_NAME", ""),
            uid=env.get("EDL_JOB_UID", ""),
            token=env.get("EDL_JOB_TOKEN", ""),
            service_url=env.get("EDL_SERVICE_URL", ""),
            service_ca=env.get("EDL_SERVICE_CA", ""),
            pod=env.get("EDL_POD_NAME") or env.get("HOSTNAME") or socket.gethostname(),
            pod_ip=env.get("POD_IP", ""),
            role=env.get("EDL_ROLE", ""),
            index=_number(env, "EDL_INDEX", None),
            trainers=_number(env, "TRAINERS", 1) or 1,
            master=_with_port(env.get("MASTER", "")),
            pserver_port=_number(env, "PADDLE_INIT_PORT", PSERVER_PORT) or 0,
            pserver_ports=_ports(env),
            checkpoints=env.get("EDL_CHECKPOINT_DIR", ""),
            restored_from=env.get("EDL_RESTORED_FROM", ""),
            passes=_number(env, "PADDLE_INIT_NUM_PASSES", 1) or 1,
            task_lease=_seconds(env, "EDL_TASK_LEASE", cls.task_lease),
            checkpoint_seconds=_seconds(env, "EDL_CHECKPOINT_SECONDS", cls.checkpoint_seconds),
            usage_seconds=_seconds(env, "EDL_USAGE_SECONDS", cls.usage_seconds),
            brain_url=env.get("EDL_BRAIN_URL", ""),
            brain_token=env.get("EDL_BRAIN_TOKEN", ""),
            brain_ca=env.get("EDL_BRAIN_CA", ""),
            plan_seconds=_seconds(env, "EDL_PLAN_SECONDS", cls.plan_seconds),
            plan_settings=env.get("EDL_PLAN_SETTINGS", ""),
        )

    def address_of(self, listener: socket.socket) -> str:
        """The address at which other pods reach the listener."""
        host = f"[{self.pod_ip}]" if ":" in self.pod_ip else self.pod_ip or "127.0.0.1"
        return f"{host}:{listener.getsockname()[1]}"

    @property
    def checkpoint_folder(self) -> Path:
        """Belongs to this job alone: another of the same name, or on the same volume, has its own."""
        base = Path(self.checkpoints) if self.checkpoints else Path(tempfile.gettempdir()) / "edl-checkpoints"
        return base / (self.restored_from or self.uid or f"{self.namespace}-{self.job}")

    def require(self, *names: str) -> None:
        for name in names:
            if not getattr(self, name):
                raise SettingError(f"{_VARIABLES[name]} is not set; the operator sets it in the pods of a job")


_VARIABLES = {
    "namespace": "EDL_JOB_NAMESPACE",
    "job": "EDL_JOB_NAME",
    "token": "EDL_JOB_TOKEN",
    "service_url": "EDL_SERVICE_URL",
    "master": "MASTER",
}


def _number(env: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = env.get(name, "").strip()
    if not text:
        return default
    if not text.isdecimal():
        raise SettingError(f"{name} is {text!r}, it must be a whole number")
    return int(text)


def _ports(env: Mapping[str, str]) -> int:
    dense, sparse = _number(env, "PADDLE_INIT_PORTS_NUM", 1), _number(env, "PADDLE_INIT_PORTS_NUM_FOR_SPARSE", 0)
    return max(1, (dense or 0) + (sparse or 0))


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        seconds = float(env.get(name, "").strip() or default)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise SettingError(f"{name} is {env[name]!r}, it must be a number of seconds above 0")
    return seconds


def _with_port(address: str) -> str:
    return address if not address or ":" in address else f"{address}:{MASTER_PORT}"
