"""The environment of a TrainingJob's pods: the variables of the first EDL with its errors mended.

Mended: the passes are the trainer's, the device count is taken from limits too and under any GPU name, and the image's
LD_LIBRARY_PATH is left alone. Sizes are the smallest ones, which never change, or the fixed one of a job without a
master; the present ones are asked for at the job service.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from edl.api.annotations import RESTORED_FROM
from edl.api.job_view import JobView, Role, replicas_at
from edl.api.kubernetes import quantity
from edl.api.kubernetes.templates import verbatim
from edl.jobs.core.pods.environment import Variable, field_variable, variable
from edl.jobs.training.roles import ETCD, MASTER, PSERVER
from edl.jobs.training.types import TrainingJob

MASTER_PORT = 8080
ETCD_CLIENT_PORT = 2379
OLD_GPU = "alpha.kubernetes.io/nvidia-gpu"


def paddle(job: TrainingJob, view: JobView, role: Role, gpu_names: Iterable[str]) -> list[Variable]:
    spec = job.spec
    trainers = spec.trainer.min_instance if spec.master is not None else spec.trainer.replicas
    use_gpu, devices = _devices(view.lead.template, gpu_names)
    return [
        variable("PADDLE_JOB_NAME", view.name),
        variable("TRAINERS", trainers),
        variable("PSERVERS", _smallest(view, PSERVER)),
        variable("ENTRY", verbatim(spec.trainer.entrypoint)),
        variable("TOPOLOGY", verbatim(spec.trainer.entrypoint)),
        variable("TRAINER_PACKAGE", spec.trainer.workspace or ""),
        variable("PADDLE_INIT_PORT", spec.port),
        variable("PADDLE_INIT_TRAINER_COUNT", devices),
        variable("PADDLE_INIT_PORTS_NUM", spec.ports_num),
        variable("PADDLE_INIT_PORTS_NUM_FOR_SPARSE", spec.ports_num_for_sparse),
        variable("PADDLE_INIT_NUM_GRADIENT_SERVERS", trainers),
        variable("PADDLE_INIT_NUM_PASSES", spec.trainer.passes),
        variable("PADDLE_INIT_USE_GPU", int(use_gpu)),
        variable("PADDLE_TRAINERS_NUM", trainers),
        variable("PADDLE_PORT", spec.port),
        variable("TRAINING_ROLE", role.name.upper()),
        *_addresses(job, view),
        variable("NAMESPACE", view.namespace),
        field_variable("POD_IP", "status.podIP"),
    ]


def trainer_slot(index: int) -> list[Variable]:
    return [variable("PADDLE_TRAINER_ID", index)]


def etcd_endpoints(view: JobView) -> str:
    service = f"{view.name}-{ETCD}"
    hosts = (f"{service}-{index}.{service}.{view.namespace}.svc" for index in range(_smallest(view, ETCD)))
    return ",".join(f"http://{host}:{ETCD_CLIENT_PORT}" for host in hosts)


def _addresses(job: TrainingJob, view: JobView) -> list[Variable]:
    variables: list[Variable] = []
    if view.role(MASTER) is not None:
        variables.append(variable("MASTER", f"{view.name}-{MASTER}:{MASTER_PORT}"))
    if view.role(PSERVER) is not None:
        variables.append(variable("PSERVER", f"{view.name}-{PSERVER}:{job.spec.port}"))
    if view.role(ETCD) is not None:
        variables.append(variable("ETCD_ENDPOINTS", etcd_endpoints(view)))
    if job.spec.mount_path:
        variables.append(variable("EDL_DATA_DIR", job.spec.mount_path))
        variables.append(variable("EDL_CHECKPOINT_DIR", f"{job.spec.mount_path.rstrip('/')}/.edl-checkpoints"))
    if former := job.metadata.annotations.get(RESTORED_FROM):
        variables.append(variable("EDL_RESTORED_FROM", former))
    return variables


def _smallest(view: JobView, role: str) -> int:
    found = view.role(role)
    return replicas_at(found, view.min) if found is not None else 0


def _devices(template: Mapping[str, Any], gpu_names: Iterable[str]) -> tuple[bool, int]:
    """GPUs of a trainer, asked for or allowed; without any its whole CPU cores, at least one."""
    resources = template["spec"]["containers"][0].get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    gpus = [_amount(part.get(name)) for name in {*gpu_names, OLD_GPU} for part in (limits, requests)]
    if max(gpus, default=0) > 0:
        return True, max(gpus)
    return False, max(1, _amount(requests.get("cpu", limits.get("cpu"))))


def _amount(value: Any) -> int:
    return quantity.whole(value) if value is not None else 0
