"""The second step: what an omitted field means, filled in memory and never written into the user's spec.

Idempotent. What depends on the installation (EDL's own image) or on the cluster stays omitted; `edl.api.roles` has it.
"""

from typing import Any, TypeVar

from msgspec.structs import replace

from edl.api import easydl_job, pytorch_job, training_job
from edl.api.job_resource import JobResource
from edl.api.kinds import EdlObject
from edl.api.training_job import TrainingJob

PORT = 7164
BACKOFF_LIMIT = 6
RESTART_COUNT = 3

_STRATEGIES = {
    "ParameterServerStrategy": easydl_job.PARAMETER_SERVER,
    "AllreduceStrategy": easydl_job.RING_ALLREDUCE,
    None: easydl_job.PARAMETER_SERVER,
}

T = TypeVar("T", bound=EdlObject)
V = TypeVar("V")
R = TypeVar("R", easydl_job.RoleSpec, easydl_job.OptionalRoleSpec)


def default(job: T) -> T:
    """The same object with every omitted field that has a default."""
    if isinstance(job, TrainingJob):
        return replace(job, spec=_training_spec(job.spec))
    if isinstance(job, pytorch_job.ElasticJob):
        return replace(job, spec=_pytorch_spec(job.spec))
    if isinstance(job, JobResource):
        return job
    return replace(job, spec=_easydl_spec(job.spec))


def _or(value: V | None, otherwise: V) -> V:
    return otherwise if value is None else value


def _training_spec(spec: training_job.TrainingJobSpec) -> training_job.TrainingJobSpec:
    trainer = spec.trainer
    return replace(
        spec,
        trainer=replace(
            trainer,
            max_instance=_or(trainer.max_instance, trainer.min_instance),
            replicas=_or(trainer.replicas, trainer.min_instance),
            passes=_or(trainer.passes, _or(spec.passes, 1)),
        ),
        pserver=spec.pserver and _pserver(spec.pserver, trainer.min_instance),
        etcd=spec.etcd and replace(spec.etcd, replicas=_or(spec.etcd.replicas, 1)),
        port=_or(spec.port, PORT),
        ports_num=_or(spec.ports_num, 1),
        ports_num_for_sparse=_or(spec.ports_num_for_sparse, 1),
        fault_tolerant=_or(spec.fault_tolerant, False),
        backoff_limit=_or(spec.backoff_limit, BACKOFF_LIMIT),
        passes=_or(spec.passes, _or(trainer.passes, 1)),
    )


def _pserver(pserver: training_job.Pserver, trainers: int) -> training_job.Pserver:
    least = _or(pserver.min_instance, trainers)
    return replace(pserver, min_instance=least, max_instance=_or(pserver.max_instance, least))


def _pytorch_spec(spec: pytorch_job.ElasticJobSpec) -> pytorch_job.ElasticJobSpec:
    worker = spec.replica_specs.worker
    replicas = _or(worker.replicas, spec.min_replicas)
    spec = _gathered(spec)
    policy = spec.scheduling_policy or pytorch_job.SchedulingPolicy()
    return replace(
        spec,
        start_timeout_seconds=_or(spec.start_timeout_seconds, policy.schedule_timeout_seconds),
        min_replicas=_or(spec.min_replicas, replicas),
        max_replicas=_or(spec.max_replicas, replicas),
        clean_pod_policy=_or(spec.clean_pod_policy, "None"),
        replica_specs=replace(
            spec.replica_specs,
            worker=replace(worker, replicas=replicas, restart_policy=_or(worker.restart_policy, "OnFailure")),
        ),
    )


def _gathered(spec: pytorch_job.ElasticJobSpec) -> pytorch_job.ElasticJobSpec:
    """What stands in one of the run policies, in the place where we read it."""
    policies = [policy for policy in (spec.run_policy, spec.first_run_policy) if policy is not None]
    found: dict[str, Any] = {}
    for name in pytorch_job.RUN_POLICY:
        values = (getattr(policy, name) for policy in (spec, *policies))
        found[name] = next((value for value in values if value is not None), None)
    return replace(spec, **found) if policies else spec


def _easydl_spec(spec: easydl_job.ElasticJobSpec) -> easydl_job.ElasticJobSpec:
    strategy = spec.distribution_strategy
    return replace(
        spec,
        distribution_strategy=_STRATEGIES.get(strategy, strategy),
        worker=_restarts(spec.worker),
        parameter_server=spec.parameter_server and _restarts(spec.parameter_server),
        evaluator=spec.evaluator and _restarts(spec.evaluator),
        trainer=spec.trainer and _restarts(spec.trainer),
    )


def _restarts(role: R) -> R:
    return replace(role, restart_count=_or(role.restart_count, RESTART_COUNT))
