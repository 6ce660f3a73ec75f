"""When an EasyDL job is over, and why."""

from collections.abc import Mapping

from edl.api.easydl_plan import PS, TRAINER, WORKER
from edl.api.status import RootCause
from edl.jobs.easydl_role import RoleLook
from edl.jobs.judgement import failure_words
from edl.jobs.slots import SlotPod


def verdict(roles: Mapping[str, RoleLook]) -> tuple[str, str, str, RootCause | None]:
    """Whether the job is over: by its trainer, or because what it cannot do without was given up."""
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
            cause = _root_cause(role)
            return "failed", code, failure_words(role.name, cause), cause
    return "", "", "", None


def _root_cause(role: RoleLook) -> RootCause:
    pods = [pod for pod in role.plan.given_up if isinstance(pod, SlotPod)]
    if not pods:
        first = role.plan.given_up[0]
        return RootCause(pod=role.slot(first if isinstance(first, int) else first.index))
    pod = min(pods, key=lambda pod: (pod.started or pod.created) + pod.ran)
    return RootCause(pod=pod.name, exit_code=pod.exit_code, reason=pod.reason, message=pod.message)
