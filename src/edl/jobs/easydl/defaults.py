"""Defaults of an EasyDL ElasticJob, filled in memory and never written into the user's spec."""

from typing import TypeVar

from msgspec.structs import replace

from edl.jobs.core.defaults import given_or
from edl.jobs.easydl.types import (
    PARAMETER_SERVER,
    RING_ALLREDUCE,
    ElasticJob,
    ElasticJobSpec,
    OptionalRoleSpec,
    RoleSpec,
)

RESTART_COUNT = 3

_STRATEGIES = {
    "ParameterServerStrategy": PARAMETER_SERVER,
    "AllreduceStrategy": RING_ALLREDUCE,
    None: PARAMETER_SERVER,
}
R = TypeVar("R", RoleSpec, OptionalRoleSpec)


def with_defaults(job: ElasticJob) -> ElasticJob:
    return replace(job, spec=_spec(job.spec))


def _spec(spec: ElasticJobSpec) -> ElasticJobSpec:
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
    return replace(role, restart_count=given_or(role.restart_count, RESTART_COUNT))
