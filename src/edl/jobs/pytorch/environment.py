"""The environment of a PyTorch ElasticJob's workers: that of design 004, and torchrun's own.

torchrun reads every option from PET_*, so that `torchrun train.py` without a flag joins the others. A variable that the
template sets counts instead of ours, and a flag counts before both.
"""

from collections.abc import Iterable, Mapping

from edl.api.annotations import STALL_TIMEOUT
from edl.api.job_view import JobView
from edl.api.kubernetes import duration
from edl.jobs.core.pods.environment import ServiceAccess, Variable
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.core.pods.torchrun import C10D_PORT, MAX_RESTARTS, OWN_RENDEZVOUS, processes, run_id
from edl.jobs.pytorch.types import ElasticJob

WORKER = "worker"
ETCD_PORT = "2379"


def drawn_environment(job: ElasticJob, view: JobView, access: ServiceAccess) -> list[Variable]:
    """What design 004 draws, in the pod itself as there."""
    spec = job.spec
    variables = {
        "RDZV_ENDPOINT": _rendezvous(job, view, access)[1],
        "JOB_ID": view.name,
        "SIZE": spec.replica_specs.worker.replicas,
        "MIN_SIZE": spec.min_replicas,
        "MAX_SIZE": spec.max_replicas,
    }
    return _variables(variables)


def worker_environment(
    job: ElasticJob, view: JobView, access: ServiceAccess, gpu_names: Iterable[str]
) -> list[Variable]:
    """What else all workers are told alike, whenever they come."""
    backend, endpoint = _rendezvous(job, view, access)
    variables = {
        "PET_NNODES": f"{job.spec.min_replicas}:{job.spec.max_replicas}",
        "PET_NPROC_PER_NODE": processes(view.lead.template, gpu_names),
        "PET_RDZV_BACKEND": backend,
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_MAX_RESTARTS": MAX_RESTARTS,
        "PYTHONUNBUFFERED": 1,
    }
    if backend != "edl":
        variables |= OWN_RENDEZVOUS
    if stall := job.metadata.annotations.get(STALL_TIMEOUT):
        # torchrun's agent then tells us whether its workers compute
        variables["EDL_STALL_TIMEOUT"] = f"{duration.seconds(stall):g}"
    address = {"name": "PET_LOCAL_ADDR", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return [*_variables(variables), address]


def _variables(variables: Mapping[str, object]) -> list[Variable]:
    return [{"name": name, "value": str(value)} for name, value in variables.items()]


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
