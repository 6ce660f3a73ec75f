"""Completion of a PyTorch ElasticJob. Time is an argument; `next_deadline` is when time alone may end it."""

from edl.api.kubernetes import timestamp
from edl.api.status import ElasticStatus, RootCause
from edl.jobs.core.maintenance import soonest
from edl.jobs.core.pods.failures import Rules, cause_of, root_cause
from edl.jobs.core.pods.pod_set import PodSetPlan
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.pytorch.environment import WORKER
from edl.jobs.pytorch.status import ROLE, Completion
from edl.jobs.pytorch.types import ElasticJob


def completion_of(
    job: ElasticJob,
    old: ElasticStatus,
    plan: PodSetPlan,
    rules: Rules,
    size: int,
    now: float,
    *,
    hopeless: RootCause | None = None,
) -> Completion | None:
    """`hopeless`: why its script cannot work, if that is known."""
    name = job.metadata.name
    if plan.complete:
        return Completion("Succeeded", "ElasticJobSucceeded", f"ElasticJob {name} is successfully completed.")
    if not plan.record.done:
        failed = _exhausted(job, plan, rules) or _too_few(job, plan, size) or _hopeless(job, hopeless, size)
        if failed is not None:
            return failed
    return _late(job, old, plan, now)


def _exhausted(job: ElasticJob, plan: PodSetPlan, rules: Rules) -> Completion | None:
    """The user's own limit of retries ends the job, however many workers are left."""
    if job.spec.backoff_limit is None or job.spec.replica_specs.worker.restart_policy == "Never":
        return None
    last = next((one.pod for one in plan.failures if one.final and one.count >= rules.limit), None)
    if last is None:
        return None
    message = f"Job {job.metadata.name} has failed because it has reached the specified backoff limit"
    return Completion("Failed", "JobFailed", message, cause_of(last))


def _too_few(job: ElasticJob, plan: PodSetPlan, size: int) -> Completion | None:
    """Design 004: the job fails if active workers are fewer than minReplicas. Who is replaced, or waits for room, is
    no loss; who is given up is."""
    lost = len(plan.given_up)
    if size == 0 or not lost or size - lost >= job.least:
        return None
    cause = root_cause(plan.given_up, lambda index: slot_name(job.metadata.name, WORKER, index))
    message = f"ElasticJob {job.metadata.name} is failed because {lost} {ROLE} replica(s) failed."
    return Completion("Failed", "ElasticJobFailed", message, cause)


def _hopeless(job: ElasticJob, cause: RootCause | None, size: int) -> Completion | None:
    if cause is None or size == 0:
        return None
    message = f"ElasticJob {job.metadata.name} is failed because all its {ROLE} replicas failed alike twice, at once."
    return Completion("Failed", "FailedFast", message, cause)


def _late(job: ElasticJob, old: ElasticStatus, plan: PodSetPlan, now: float) -> Completion | None:
    name, start = job.metadata.name, _start_by(job, old)
    enough = plan.counts.active + plan.counts.succeeded >= job.least
    deadline = _deadline(job, old)
    if deadline is not None and now >= deadline:
        message = f"Job {name} has failed because it was active longer than specified deadline"
        return Completion("Failed", "JobFailed", message)
    if start is not None and now >= start and not enough:
        wanted, within = job.least, job.spec.start_timeout_seconds
        message = f"ElasticJob {name} is failed because fewer than {wanted} {ROLE} replica(s) ran within {within} s."
        return Completion("Failed", "StartTimeout", f"{message} {old.reason}".strip())
    return None


def next_deadline(job: ElasticJob, status: ElasticStatus) -> float | None:
    if status.finished:
        return None
    return soonest(_deadline(job, status), _start_by(job, status))


def _deadline(job: ElasticJob, status: ElasticStatus) -> float | None:
    limit = job.spec.active_deadline_seconds
    return timestamp.seconds(status.start_time) + limit if limit is not None and status.start_time else None


def _start_by(job: ElasticJob, status: ElasticStatus) -> float | None:
    """Until its workers have run together once. A suspended job waits for its user, not for room."""
    limit, created = job.spec.start_timeout_seconds, job.metadata.creation_timestamp
    if limit is None or status.minimum_reached or status.attempt or job.spec.suspend or not created:
        return None
    return timestamp.seconds(created) + limit
