"""Converts a plan to the spec that the job service takes, and checks it before it is followed."""

from typing import Any

import msgspec

from edl.protocol.job_facts import PARAMETER_SERVER, Features, PodUsage, ResourcePlan
from edl.protocol.resources import EVALUATOR, SERVER, WORKER, Resource

FIELDS = {SERVER: "parameter_server", WORKER: "worker", EVALUATOR: "evaluator"}
MOST_PODS, MOST_CPU, MOST_MEMORY, MOST_GPU = 1000, 256.0, 1 << 22, 64


class InvalidPlanError(Exception):
    """A plan that must not be followed; the message names the field."""


def spec_of(plan: ResourcePlan, job: str) -> dict[str, Any]:
    """A JobResource's spec without its selector."""
    spec: dict[str, Any] = {
        FIELDS[role]: {"replicas": wanted.replicas, "resource": msgspec.to_builtins(wanted.resource)}
        for role, wanted in plan.roles.items()
    }
    if plan.slots:
        spec["resource_updation"] = [
            {"name": f"{job}-{slot}", "resource": msgspec.to_builtins(own)} for slot, own in sorted(plan.slots.items())
        ]
    return spec


def check(plan: ResourcePlan, features: Features, uses: dict[str, PodUsage]) -> None:
    """Also a plan of the Brain: an answer that came over a network may be anything."""
    unknown = sorted(set(plan.roles) - set(FIELDS))
    if unknown:
        raise InvalidPlanError(f"roles.{unknown[0]} is no role of a job")
    if plan.roles.get(WORKER) is None or plan.roles[WORKER].replicas < 1:
        raise InvalidPlanError("roles.worker.replicas must be 1 or more")
    served = features.strategy == PARAMETER_SERVER
    if served and (plan.roles.get(SERVER) is None or plan.roles[SERVER].replicas < 1):
        raise InvalidPlanError("roles.ps.replicas must be 1 or more")
    for role, wanted in plan.roles.items():
        if wanted.replicas > MOST_PODS:
            raise InvalidPlanError(f"roles.{role}.replicas is {wanted.replicas}, above {MOST_PODS}")
        _check_resource(f"roles.{role}", wanted.resource, _used(role, uses, set(plan.slots)))
    for slot, own in plan.slots.items():
        role, _, index = slot.rpartition("-")
        if role not in plan.roles or not index.isdecimal():
            raise InvalidPlanError(f"slots.{slot} is no slot of the job")
        _check_resource(f"slots.{slot}", own, uses[slot].memory if slot in uses else 0)


def _used(role: str, uses: dict[str, PodUsage], apart: set[str]) -> int:
    own = [use.memory for slot, use in uses.items() if slot.rpartition("-")[0] == role and slot not in apart]
    return max(own, default=0)


def _check_resource(where: str, resource: Resource, used: int) -> None:
    """Memory below what is in use now would kill the pod that it is meant for."""
    if resource.cpu is not None and not 0 < resource.cpu <= MOST_CPU:
        raise InvalidPlanError(f"{where}.cpu is {resource.cpu}, it must be above 0 and at most {MOST_CPU:g}")
    if resource.memory is not None and not used <= resource.memory <= MOST_MEMORY:
        raise InvalidPlanError(f"{where}.memory is {resource.memory} MiB, {used} are in use, {MOST_MEMORY} is the most")
    if resource.memory == 0:
        raise InvalidPlanError(f"{where}.memory is 0")
    if (resource.gpu or 0) > MOST_GPU:
        raise InvalidPlanError(f"{where}.gpu is {resource.gpu}, above {MOST_GPU}")
