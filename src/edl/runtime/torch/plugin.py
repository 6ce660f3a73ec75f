"""The rendezvous backend `edl`, found by torchrun under the entry point `torchrun.handlers`. Imports no torch."""

import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from edl.protocol.rendezvous import Hello
from edl.runtime.environment import Environment, SettingError
from edl.runtime.hugging_face import offer_progress_server
from edl.runtime.tls import tls_context
from edl.runtime.torch.agent_state import AgentState
from edl.runtime.torch.connection import Address, ConnectionThread


class Parameters(Protocol):
    """torchrun's options --rdzv-id, --nnodes, --local-addr, --rdzv-endpoint and --rdzv-conf."""

    run_id: str
    endpoint: str
    min_nodes: int
    max_nodes: int
    local_addr: str | None
    config: dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """From `--rdzv-conf join_window=3,linger=0.3,stop_timeout=10,...`; all but warm in seconds."""

    window: float = 3.0
    linger: float = 0.3
    stop: float = 10.0
    """After so long a worker that does not stop on SIGTERM is killed: it may be stuck in a collective for ever."""
    patience: float = 0.0
    """How long an agent waits for a round; 0: for as long as the operator lets it live."""
    silence: float = 30.0
    """After so long a worker that lives on through changes, and does not answer its agent, is started anew."""
    warm: bool = True

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "Settings":
        return cls(
            window=_seconds(config, "join_window", cls.window),
            linger=_seconds(config, "linger", cls.linger),
            stop=_seconds(config, "stop_timeout", cls.stop),
            patience=_seconds(config, "join_timeout", cls.patience),
            silence=_seconds(config, "silence_timeout", cls.silence),
            warm=str(config.get("warm", "1")).lower() not in ("0", "false", "no"),
        )


def handler() -> Callable[[Parameters], Any]:
    """Called by torchrun whatever backend it was asked for, so nothing happens before `create`."""
    return create


def create(params: Parameters) -> Any:
    from edl.runtime.torch import agent  # imports torch, which is wanted only now

    offer_progress_server(os.environ)
    return agent.install(params, Settings.read(params.config), os.environ)


def connect(params: Parameters, settings: Settings, env: Mapping[str, str]) -> ConnectionThread:
    """The connection of this process's agent. What is missing is named together with who should have set it."""
    endpoint = params.endpoint if "://" in params.endpoint or not params.endpoint else f"https://{params.endpoint}"
    here = Environment.read({**env, "EDL_SERVICE_URL": env.get("EDL_SERVICE_URL") or endpoint})
    here.require("service_url", "namespace", "job", "token")
    url = f"{here.service_url.rstrip('/')}/v1/jobs/{here.namespace}/{here.job}/rendezvous"
    tls = tls_context(here.service_ca) if url.startswith("https:") else None
    hello = Hello(
        agent=f"{here.pod}/{uuid.uuid4().hex[:8]}",
        run=params.run_id,
        minimum=params.min_nodes,
        maximum=params.max_nodes,
        window=settings.window,
        linger=settings.linger,
        follows=(env.get("MIN_SIZE"), env.get("MAX_SIZE")) == (str(params.min_nodes), str(params.max_nodes)),
    )
    return ConnectionThread(Address(url, here.token, tls), AgentState(hello))


def _seconds(config: Mapping[str, Any], key: str, default: float) -> float:
    try:
        value = float(config.get(key, default))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise SettingError(f"--rdzv-conf {key} is {config[key]!r}, it must be a number of seconds")
    return value
