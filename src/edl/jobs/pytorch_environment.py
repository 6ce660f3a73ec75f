"""The environment of a PyTorch ElasticJob's workers: that of design 004, and torchrun's own.

torchrun reads every option from PET_*, so that `torchrun train.py` without a flag joins the others. A variable that the
template sets counts instead of ours, and a flag counts before both.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from edl.api import duration, quantity
from edl.api.annotations import STALL_TIMEOUT
from edl.api.pytorch_job import ElasticJob
from edl.api.roles import JobView
from edl.jobs.environment import ServiceAccess, Variable
from edl.jobs.slots import slot_name

WORKER = "worker"
ETCD_PORT = "2379"
C10D_PORT = 29400
MAX_RESTARTS = 3  # of the processes of one worker, before the worker itself counts as failed
LAST_CALL = "last_call_timeout=3"  # torchrun waits half a minute for more workers unless told otherwise


def run_id(uid: str, attempt: int) -> str:
    """Under which name workers meet. A job that was stopped as a whole and started anew meets under another one."""
    return f"{uid}-{attempt}"


def drawn_environment(job: ElasticJob, view: JobView, access: ServiceAccess) -> list[Variable]:
    """What design 004 draws, in the pod itself as there."""
    spec = job.spec
    told = {
        "RDZV_ENDPOINT": _rendezvous(job, view, access)[1],
        "JOB_ID": view.name,
        "SIZE": spec.replica_specs.worker.replicas,
        "MIN_SIZE": spec.min_replicas,
        "MAX_SIZE": spec.max_replicas,
    }
    return _variables(told)


def worker_environment(
    job: ElasticJob, view: JobView, access: ServiceAccess, gpu_names: Iterable[str]
) -> list[Variable]:
    """What else all workers are told alike, whenever they come."""
    backend, endpoint = _rendezvous(job, view, access)
    told = {
        "PET_NNODES": f"{job.spec.min_replicas}:{job.spec.max_replicas}",
        "PET_NPROC_PER_NODE": processes(view.lead.template, gpu_names),
        "PET_RDZV_BACKEND": backend,
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_MAX_RESTARTS": MAX_RESTARTS,
        "PYTHONUNBUFFERED": 1,
    }
    if backend != "edl":
        told["PET_RDZV_CONF"] = LAST_CALL
    if stall := job.metadata.annotations.get(STALL_TIMEOUT):
        # torchrun's agent then tells us whether its workers compute
        told["EDL_STALL_TIMEOUT"] = f"{duration.seconds(stall):g}"
    address = {"name": "PET_LOCAL_ADDR", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return [*_variables(told), address]


def _variables(told: Mapping[str, object]) -> list[Variable]:
    return [{"name": name, "value": str(value)} for name, value in told.items()]


def meeting(view: JobView, attempt: int) -> Variable:
    return {"name": "PET_RDZV_ID", "value": run_id(view.uid, attempt)}


def _rendezvous(job: ElasticJob, view: JobView, access: ServiceAccess) -> tuple[str, str]:
    """Ours, unless the user names another. Without a job service the first worker has to be the meeting point."""
    given = job.spec.rdzv_endpoint
    if given:
        return ("etcd" if given.rpartition(":")[2] == ETCD_PORT else "c10d"), given
    if access.url:
        return "edl", access.url.partition("://")[2]
    return "c10d", f"{slot_name(view.name, WORKER, 0)}:{C10D_PORT}"


def processes(template: Mapping[str, Any], gpu_names: Iterable[str]) -> int:
    """One for each GPU of a worker, or one."""
    resources = template["spec"]["containers"][0].get("resources") or {}
    parts = [resources.get(part) or {} for part in ("limits", "requests")]
    found = [quantity.whole(part[name]) for name in gpu_names for part in parts if name in part]
    return max(1, *found) if found else 1
