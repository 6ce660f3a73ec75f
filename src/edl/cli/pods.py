"""The pods of a job, in the order of its roles: what `describe` lists and `logs` reads."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edl.api.kinds import Kind
    from edl.kube.client import Client
    from edl.kube.resource import Resource

Pod = Mapping[str, Any]


def pods_resource() -> "Resource":
    from edl.kube.resource import Resource

    return Resource("", "v1", "pods", "Pod")


async def job_pods(client: "Client", kind: "Kind", namespace: str, job: str, role: str | None = None) -> list[Pod]:
    labels = {"edl.dev/job": job, "edl.dev/kind": kind.crd_name, **({"edl.dev/role": role} if role else {})}
    page = await client.list(pods_resource(), namespace=namespace, labels=labels)
    return sorted(page.items, key=_order)


def _order(pod: Pod) -> tuple[str, int, str]:
    labels = pod["metadata"].get("labels") or {}
    index = labels.get("edl.dev/index", "")
    return role_of(pod), int(index) if index.isdigit() else 0, pod["metadata"]["name"]


def role_of(pod: Pod) -> str:
    return str((pod["metadata"].get("labels") or {}).get("edl.dev/role", ""))


def state_of(pod: Pod) -> str:
    """One word or two: what `kubectl get pods` would show."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        stopped = state.get("waiting") or state.get("terminated") or {}
        if stopped.get("reason") not in (None, "Completed", "ContainerCreating"):
            code = f" ({stopped['exitCode']})" if "exitCode" in stopped else ""
            return f"{stopped['reason']}{code}"
    return str(status.get("phase", "Pending"))
