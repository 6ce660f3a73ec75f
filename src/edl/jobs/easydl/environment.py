"""The environment of an EasyDL job's pods, beside EDL's own: what TensorFlow, PyTorch and Horovod look for.

Addresses are those of slots, which never change whoever fills them. Lists have every slot that the plan allows for, so
that a pod need not be told of later ones; who is there at present is asked for at the job service.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from edl.api.job_view import JobView
from edl.jobs.core.pods.environment import ServiceAccess, Variable
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.core.pods.torchrun import C10D_PORT, MAX_RESTARTS, OWN_RENDEZVOUS, processes, run_id
from edl.jobs.easydl.followed_plan import EVALUATOR, PS, TRAINER, WORKER
from edl.jobs.easydl.types import PARAMETER_SERVER, ElasticJob

PORTS = {TRAINER: 50001, PS: 2222, WORKER: 3333, EVALUATOR: 3333}
CHIEF = "chief"
MOST_NODES = 1000
"""What torchrun is told to take at most: a later plan may allow more workers than the one that an agent began with."""
_OWN_PORTS = range(12000, 30000)  # below those that Linux gives out
_SLOTS = 50
_POD_IP: Variable = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def address(view: JobView, role: str, index: int) -> str:
    return f"{_host(view, role, index)}:{PORTS[role]}"


def slot_address(job: str, role: str, index: int) -> str:
    """As seen from the job's own namespace."""
    return f"{slot_name(job, role, index, alone=role == TRAINER)}:{PORTS[role]}" if role in PORTS else ""


def role_environment(
    job: ElasticJob,
    view: JobView,
    role: str,
    index: int,
    access: ServiceAccess,
    gpu_names: Iterable[str],
    *,
    shared_host: bool = False,
) -> list[Variable]:
    """`shared_host`: pods are processes of one machine, which share its ports."""
    variables = _own_runtime(view, role)
    if role == TRAINER:
        return variables
    if job.spec.distribution_strategy == PARAMETER_SERVER:
        return [*variables, _value("TF_CONFIG", tf_config(view, role, index, shared_host=shared_host))]
    return [*variables, *_torch(job, view, access, gpu_names), *_horovod(view, role, index)]


def _own_runtime(view: JobView, role: str) -> list[Variable]:
    """What EDL's own trainer, parameter servers and workers go by: the trainer is the master of the tasks."""
    keeper = address(view, TRAINER, 0)
    variables = [_value("EDL_TRAINER_ADDRESS", keeper), _value("MASTER", keeper), _POD_IP]
    return [*variables, _value("PADDLE_INIT_PORT", PORTS[PS])] if role == PS else variables


def tf_config(view: JobView, role: str, index: int, *, shared_host: bool = False) -> str:
    """The first worker is the chief, whom TensorFlow wants to have; evaluators stand beside the cluster."""
    workers = _addresses(view, WORKER, shared_host)
    cluster = {PS: _addresses(view, PS, shared_host), CHIEF: workers[:1], WORKER: workers[1:]}
    task = {"type": role, "index": index}
    if role == WORKER:
        task = {"type": WORKER, "index": index - 1} if index else {"type": CHIEF, "index": 0}
    whole = {"cluster": {name: found for name, found in cluster.items() if found}, "task": task}
    return msgspec.json.encode(whole).decode()


def _torch(job: ElasticJob, view: JobView, access: ServiceAccess, gpu_names: Iterable[str]) -> list[Variable]:
    """As a PyTorch ElasticJob has it: `torchrun train.py` without flags finds the others. Workers meet in the job
    service; where there is none, at the first of them."""
    least, most = view.min, view.max
    workers = view.role(WORKER)
    endpoint = access.url.partition("://")[2] or f"{_host(view, WORKER, 0)}:{C10D_PORT}"
    variables = {
        "RDZV_ENDPOINT": endpoint,
        "JOB_ID": view.name,
        "SIZE": view.start,
        "MIN_SIZE": least,
        "MAX_SIZE": most,
        "PET_NNODES": f"{least}:{max(most, MOST_NODES)}",
        "PET_NPROC_PER_NODE": processes(workers.template, gpu_names) if workers is not None else 1,
        "PET_RDZV_BACKEND": "edl" if access.url else "c10d",
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_RDZV_ID": run_id(view.uid, job.status.attempt),
        "PET_MAX_RESTARTS": MAX_RESTARTS,
        "PET_LOCAL_ADDR": "$(POD_IP)",
        "PYTHONUNBUFFERED": 1,
    }
    if not access.url:
        variables |= OWN_RENDEZVOUS
    return [_value(name, value) for name, value in variables.items()]


def _horovod(view: JobView, role: str, index: int) -> list[Variable]:
    """The trainer is where Horovod's elastic driver, if there is one, is expected to serve its rendezvous."""
    return [
        _value("HOROVOD_ELASTIC", 1),
        _value("HOROVOD_CONTROLLER", "gloo"),
        _value("HOROVOD_CPU_OPERATIONS", "gloo"),
        _value("HOROVOD_GLOO_RENDEZVOUS_ADDR", _host(view, TRAINER, 0)),
        _value("HOROVOD_GLOO_RENDEZVOUS_PORT", PORTS[TRAINER]),
        _value("HOROVOD_HOSTNAME", _host(view, role, index)),
        _value("HOROVOD_RANK", index),
        _value("HOROVOD_SIZE", view.max),
        _value("HOROVOD_LOCAL_RANK", 0),
        _value("HOROVOD_LOCAL_SIZE", 1),
    ]


def _addresses(view: JobView, role: str, shared_host: bool) -> list[str]:
    found = view.role(role)
    indexes = range(found.max if found is not None else 0)
    if not shared_host:
        return [address(view, role, index) for index in indexes]
    return [f"{_host(view, role, index)}:{_port_of_its_own(view, role, index)}" for index in indexes]


def _port_of_its_own(view: JobView, role: str, index: int) -> int:
    """TensorFlow listens on all addresses of its host: where pods share one, every slot of every job has a port."""
    digest = int.from_bytes(hashlib.blake2b(view.uid.encode(), digest_size=4).digest())
    first = _OWN_PORTS.start + digest % ((len(_OWN_PORTS) - 2 * _SLOTS) // (2 * _SLOTS)) * 2 * _SLOTS
    return first + index % _SLOTS + (_SLOTS if role == PS else 0)


def _host(view: JobView, role: str, index: int) -> str:
    return f"{slot_name(view.name, role, index, alone=role == TRAINER)}.{view.namespace}.svc"


def _value(name: str, value: object) -> Variable:
    return {"name": name, "value": str(value)}
