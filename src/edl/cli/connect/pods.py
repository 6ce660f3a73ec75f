"""Lists the pods of a job in the order of its roles: those that it controls, for anybody may write its labels."""

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple

from edl.api.labels import LABEL_INDEX, LABEL_JOB, LABEL_KIND, LABEL_ROLE

if TYPE_CHECKING:
    from edl.cli.connect.jobs import JobSummary
    from edl.jobs.core.kind import Kind
    from edl.kube.rest.client import Client
    from edl.kube.rest.resource import Resource

Pod = Mapping[str, Any]
WORKLOADS = {
    "Job": ("batch", "v1", "jobs"),
    "ReplicaSet": ("apps", "v1", "replicasets"),
    "StatefulSet": ("apps", "v1", "statefulsets"),
}
"""Group, version and plural of the kinds that make pods of a TrainingJob."""


def pods_resource() -> "Resource":
    from edl.kube.rest.resource import Resource

    return Resource("", "v1", "pods", "Pod")


async def job_pods(client: "Client", kind: "Kind", namespace: str, job: str, *, uid: str = "") -> list[Pod]:
    """Those that the job controls itself, or by a workload that it controls. `uid` is the job's; it is asked for if it
    is not given."""
    labels = {LABEL_JOB: job, LABEL_KIND: kind.crd_name}
    found = (await client.list(pods_resource(), namespace=namespace, labels=labels)).items
    if not found:
        return []
    owner = uid or await _uid_of(client, kind, namespace, job)
    others = {one["kind"] for pod in found if (one := _controller(pod)) and one["uid"] != owner}
    owners = {owner, *await _workloads(client, namespace, labels, others, owner)}
    ours = (pod for pod in found if (one := _controller(pod)) and one["uid"] in owners)
    return sorted(ours, key=_order)


async def _uid_of(client: "Client", kind: "Kind", namespace: str, job: str) -> str:
    """Empty if it is gone."""
    from edl.cli.connect.jobs import look_up

    found = await look_up(client, kind, namespace, job)
    return found.uid if found is not None else ""


async def _workloads(
    client: "Client", namespace: str, labels: dict[str, str], kinds: Set[str], owner: str
) -> list[str]:
    """Uids of the job's own objects of these kinds, which make pods for it."""
    from edl.kube.rest.resource import Resource

    found: list[str] = []
    for kind in sorted(kinds & WORKLOADS.keys()):
        resource = Resource(*WORKLOADS[kind], kind)
        page = await client.list(resource, namespace=namespace, labels=labels)
        found += [one["metadata"]["uid"] for one in page.items if (_controller(one) or {}).get("uid") == owner]
    return found


def _controller(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    owners = item["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def _order(pod: Pod) -> tuple[str, int, str]:
    labels = pod["metadata"].get("labels") or {}
    index = labels.get(LABEL_INDEX, "")
    return role_of(pod), int(index) if index.isdigit() else 0, pod["metadata"]["name"]


def role_of(pod: Pod) -> str:
    return str((pod["metadata"].get("labels") or {}).get(LABEL_ROLE, ""))


def gone_pods(job: "JobSummary") -> list[str]:
    """Names of pods that the slots of a job once had, as its status remembers them; some of them may still be there."""
    names: list[str] = []
    for memory in job.status.get("slots") or ():
        pods = memory.get("pods") or {}
        for index in range(int(memory.get("peak") or 0)):
            slot = f"{job.name}-{memory.get('role')}-{index}"
            last = int(pods.get(str(index), 0))
            names += [slot if attempt == 0 else f"{slot}-{attempt}" for attempt in range(last + 1)]
    return names


class LastWords(NamedTuple):
    """How a pod ended that failed or was lost, as the job's status remembers it."""

    pod: str
    time: str
    end: str
    message: str


def last_words(job: "JobSummary") -> list[LastWords]:
    """Of the newest such pods, the newest last; some of them may still be there."""
    return [
        LastWords(str(one.get("pod") or ""), str(one.get("time") or ""), end_of(one), str(one.get("message") or ""))
        for one in job.status.get("ended_pods") or job.status.get("endedPods") or ()
    ]


def end_of(ended: Mapping[str, Any]) -> str:
    """Reason and exit code of an entry in status, however its kind spells them."""
    code = ended.get("exit_code", ended.get("exitCode"))
    return ", ".join(filter(None, (ended.get("reason"), "" if code is None else f"exit code {code}")))


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
