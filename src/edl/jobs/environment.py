"""The environment of a TrainingJob's pods: EDL's own variables, then those of the first EDL with its errors mended.

Mended: the passes are the trainer's, the device count is taken from limits too and under any GPU name, and the image's
LD_LIBRARY_PATH is left alone. Sizes are the smallest ones, which never change; the present ones are asked for at the
job service.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from edl.api import quantity
from edl.api.roles import JobView, Role, replicas_at
from edl.api.templates import verbatim
from edl.api.training_job import TrainingJob
from edl.api.training_roles import ETCD, MASTER, PSERVER

Variable = dict[str, Any]

MASTER_PORT = 8080
ETCD_CLIENT_PORT = 2379
TOKEN_KEY, CA_KEY = "token", "ca.crt"
POD_NAME = "EDL_POD_NAME"
URL, TOKEN, CA = "EDL_SERVICE_URL", "EDL_JOB_TOKEN", "EDL_SERVICE_CA"
OLD_GPU = "alpha.kubernetes.io/nvidia-gpu"


class ServiceAccess(msgspec.Struct, frozen=True):
    """How pods reach the job service. The token is in a Secret of the job's."""

    url: str = ""


def secret_name(job: str, tag: str) -> str:
    """`tag` is the kind's short name: jobs of two kinds may have one name."""
    return f"{job}-{tag}-token"


def common(view: JobView, role: str, access: ServiceAccess) -> list[Variable]:
    """What every pod of every kind is told."""
    told = [
        _value("EDL_JOB_NAME", view.name),
        _value("EDL_JOB_NAMESPACE", view.namespace),
        _value("EDL_JOB_UID", view.uid),
        _value("EDL_ROLE", role),
        _field(POD_NAME, "metadata.name"),
    ]
    if access.url:
        told += [
            _value(URL, access.url),
            _secret(TOKEN, view, TOKEN_KEY),
            _secret(CA, view, CA_KEY),
        ]
    return told


def slot(pod: str, index: int, attempt: int) -> list[Variable]:
    """What one pod of a slot is told. An attempt above 0 joins a job that others have begun."""
    return [_value(POD_NAME, pod), slot_index(index), slot_attempt(attempt)]


def slot_index(index: int) -> Variable:
    return _value("EDL_INDEX", index)


def slot_attempt(attempt: int) -> Variable:
    return _value("EDL_ATTEMPT", attempt)


def paddle(job: TrainingJob, view: JobView, role: Role, gpu_names: Iterable[str]) -> list[Variable]:
    spec = job.spec
    trainers = spec.trainer.min_instance
    use_gpu, devices = _devices(view.lead.template, gpu_names)
    return [
        _value("PADDLE_JOB_NAME", view.name),
        _value("TRAINERS", trainers),
        _value("PSERVERS", _smallest(view, PSERVER)),
        _value("ENTRY", verbatim(spec.trainer.entrypoint)),
        _value("TOPOLOGY", verbatim(spec.trainer.entrypoint)),
        _value("TRAINER_PACKAGE", spec.trainer.workspace or ""),
        _value("PADDLE_INIT_PORT", spec.port),
        _value("PADDLE_INIT_TRAINER_COUNT", devices),
        _value("PADDLE_INIT_PORTS_NUM", spec.ports_num),
        _value("PADDLE_INIT_PORTS_NUM_FOR_SPARSE", spec.ports_num_for_sparse),
        _value("PADDLE_INIT_NUM_GRADIENT_SERVERS", trainers),
        _value("PADDLE_INIT_NUM_PASSES", spec.trainer.passes),
        _value("PADDLE_INIT_USE_GPU", int(use_gpu)),
        _value("PADDLE_TRAINERS_NUM", trainers),
        _value("PADDLE_PORT", spec.port),
        _value("TRAINING_ROLE", role.name.upper()),
        *_addresses(job, view),
        _value("NAMESPACE", view.namespace),
        _field("POD_IP", "status.podIP"),
    ]


def trainer_slot(index: int) -> list[Variable]:
    return [_value("PADDLE_TRAINER_ID", index)]


def merged(own: list[Variable], given: Iterable[Mapping[str, Any]] | None) -> list[Variable]:
    """The user's variables follow ours, so that they may refer to them; ours may not be taken, the rest may be."""
    theirs = [dict(variable) for variable in given or ()]
    reserved = {variable["name"] for variable in own if variable["name"].startswith("EDL_")}
    names = {variable.get("name") for variable in theirs}
    kept = [variable for variable in own if variable["name"] in reserved or variable["name"] not in names]
    return [*kept, *(variable for variable in theirs if variable.get("name") not in reserved)]


def etcd_endpoints(view: JobView) -> str:
    service = f"{view.name}-{ETCD}"
    hosts = (f"{service}-{index}.{service}.{view.namespace}.svc" for index in range(_smallest(view, ETCD)))
    return ",".join(f"http://{host}:{ETCD_CLIENT_PORT}" for host in hosts)


def _addresses(job: TrainingJob, view: JobView) -> list[Variable]:
    told: list[Variable] = []
    if view.role(MASTER) is not None:
        told.append(_value("MASTER", f"{view.name}-{MASTER}:{MASTER_PORT}"))
    if view.role(PSERVER) is not None:
        told.append(_value("PSERVER", f"{view.name}-{PSERVER}:{job.spec.port}"))
    if view.role(ETCD) is not None:
        told.append(_value("ETCD_ENDPOINTS", etcd_endpoints(view)))
    if job.spec.mount_path:
        told.append(_value("EDL_DATA_DIR", job.spec.mount_path))
        told.append(_value("EDL_CHECKPOINT_DIR", f"{job.spec.mount_path.rstrip('/')}/.edl-checkpoints"))
    return told


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


def _value(name: str, value: object) -> Variable:
    return {"name": name, "value": str(value)}


def _field(name: str, path: str) -> Variable:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _secret(name: str, view: JobView, key: str) -> Variable:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name(view.name, view.tag), "key": key}}}
