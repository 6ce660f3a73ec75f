"""Defaults of a PyTorch ElasticJob, filled in memory and never written into the user's spec."""

from typing import Any

from msgspec.structs import replace

from edl.jobs.core.defaults import given_or
from edl.jobs.pytorch.types import RUN_POLICY, ElasticJob, ElasticJobSpec, SchedulingPolicy


def with_defaults(job: ElasticJob) -> ElasticJob:
    return replace(job, spec=_spec(job.spec))


def _spec(spec: ElasticJobSpec) -> ElasticJobSpec:
    worker = spec.replica_specs.worker
    replicas = given_or(worker.replicas, spec.min_replicas)
    spec = _gathered(spec)
    policy = spec.scheduling_policy or SchedulingPolicy()
    return replace(
        spec,
        start_timeout_seconds=given_or(spec.start_timeout_seconds, policy.schedule_timeout_seconds),
        min_replicas=given_or(spec.min_replicas, replicas),
        max_replicas=given_or(spec.max_replicas, replicas),
        clean_pod_policy=given_or(spec.clean_pod_policy, "None"),
        replica_specs=replace(
            spec.replica_specs,
            worker=replace(worker, replicas=replicas, restart_policy=given_or(worker.restart_policy, "OnFailure")),
        ),
    )


def _gathered(spec: ElasticJobSpec) -> ElasticJobSpec:
    """The fields of the run policies, in the place where we read them."""
    policies = [policy for policy in (spec.run_policy, spec.first_run_policy) if policy is not None]
    if not policies:
        return spec
    found: dict[str, Any] = {}
    for name in RUN_POLICY:
        values = (getattr(policy, name) for policy in (spec, *policies))
        found[name] = next((value for value in values if value is not None), None)
    return replace(spec, **found)
