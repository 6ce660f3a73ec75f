"""Completion of an EasyDL job: by its trainer, or by the loss of pods that it cannot do without."""

from collections.abc import Mapping

from edl.api.status import RootCause
from edl.jobs.core.common_conditions import failure_message
from edl.jobs.core.pods.failures import root_cause
from edl.jobs.easydl.followed_plan import PS, TRAINER, WORKER
from edl.jobs.easydl.role import RoleReconcile


def completion_of(
    roles: Mapping[str, RoleReconcile], *, hopeless: RootCause | None = None
) -> tuple[str, str, str, RootCause | None]:
    """Whether the job is over: by its trainer, or because what it cannot do without was given up. `hopeless`: why the
    script of its workers cannot work, if that is known."""
    trainer, servers, workers = roles[TRAINER], roles[PS], roles[WORKER]
    if trainer.plan.complete:
        return "succeeded", "TrainerFinished", "the trainer finished", None
    spent = len(workers.plan.given_up) + len(workers.plan.record.done) >= workers.wanted.size
    last = workers.plan.given_up and spent and not workers.plan.holders
    for role, code, lost in (
        (trainer, "TrainerFailed", bool(trainer.plan.given_up)),
        (servers, "ParameterServerFailed", bool(servers.plan.given_up)),
        (workers, "WorkersFailed", bool(last)),
    ):
        if lost:
            cause = root_cause(role.plan.given_up, role.slot)
            return "failed", code, failure_message(role.name, cause), cause
    if hopeless is not None and workers.wanted.size and not workers.plan.record.done:
        words = f"all workers failed alike twice, at once: {failure_message(WORKER, hopeless)}"
        return "failed", "FailedFast", words, hopeless
    return "", "", "", None
