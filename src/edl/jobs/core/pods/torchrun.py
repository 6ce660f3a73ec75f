"""Settings of torchrun that kinds which run it share: every option it reads from PET_* has its value from here."""

from collections.abc import Iterable, Mapping
from typing import Any

from edl.api.kubernetes import quantity

C10D_PORT = 29400
MAX_RESTARTS = 3  # of the processes of one worker, before the worker itself counts as failed
OWN_RENDEZVOUS: Mapping[str, object] = {
    # Torchrun waits half a minute for more workers unless told otherwise, and a quarter for one that was killed.
    "PET_RDZV_CONF": "last_call_timeout=3,keep_alive_interval=2,keep_alive_max_attempt=3",
    # Else c10d keeps what the processes of all rounds tell each other in the one store of the rendezvous. After a kill
    # they wait there for each other by different counts, and never meet again.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": 1,
}
"""What makes a rendezvous of torchrun's own backends (c10d, etcd) regroup soon and safely."""


def run_id(uid: str, attempt: int) -> str:
    """Rendezvous id of a job's workers. A job that was stopped as a whole and started anew has another one."""
    return f"{uid}-{attempt}"


def processes(template: Mapping[str, Any], gpu_names: Iterable[str]) -> int:
    """One for each GPU of a worker, or one."""
    resources = template["spec"]["containers"][0].get("resources") or {}
    parts = [resources.get(part) or {} for part in ("limits", "requests")]
    found = [quantity.whole(part[name]) for name in gpu_names for part in parts if name in part]
    return max(1, *found) if found else 1
