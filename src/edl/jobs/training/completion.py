"""The end of a TrainingJob: all trainers are done, or a trainer or a server of theirs has failed too often."""

from typing import Literal

import msgspec
from msgspec.structs import asdict

from edl.api.status import RootCause
from edl.jobs.core.common_conditions import failure_message
from edl.jobs.core.pods.failures import cause_of, root_cause
from edl.jobs.core.pods.observed_pods import ObservedPods
from edl.jobs.core.pods.pod_set import PodSetPlan
from edl.jobs.core.pods.restarts import given_up
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.training.roles import TRAINER
from edl.jobs.training.types import TrainingRootCause


class Completion(msgspec.Struct, frozen=True):
    """How the job ends: by which role, and by the code and words of its condition."""

    phase: Literal["succeeded", "failed"]
    code: str
    message: str
    cause: TrainingRootCause | None = None


def completion_of(
    job: str, plan: PodSetPlan, pods: ObservedPods, limit: int, *, hopeless: RootCause | None = None
) -> Completion | None:
    """`limit`: how often in a row a server may fail. Trainers have theirs in the plan. `hopeless`: why their script
    cannot work, if that is known."""
    if plan.given_up:
        return _failed(TRAINER, root_cause(plan.given_up, lambda index: slot_name(job, TRAINER, index)))
    if plan.complete:
        return Completion("succeeded", "AllTrainersFinished", f"all {plan.counts.succeeded} trainers finished")
    if hopeless is not None and not plan.record.done:
        message = f"all trainers failed alike twice, at once: {failure_message(TRAINER, hopeless)}"
        return Completion("failed", "FailedFast", message, TrainingRootCause(**asdict(hopeless)))
    crashed = given_up(pods.restarting, limit)
    if crashed is not None and crashed[1].cause is not None:
        role, pod = crashed
        return _failed(role, cause_of(crashed[1].cause), pod.failures)
    return None


def _failed(role: str, cause: RootCause, times: int = 1) -> Completion:
    message = failure_message(role, cause, times)
    return Completion("failed", f"{role.capitalize()}Failed", message, TrainingRootCause(**asdict(cause)))
