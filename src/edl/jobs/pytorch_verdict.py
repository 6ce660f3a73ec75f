"""Whether a PyTorch ElasticJob is over, and why. Time is an argument; `wakes` says when time alone may end it."""

from edl.api import timestamp
from edl.api.pytorch_job import ElasticJob
from edl.api.status import ElasticStatus, RootCause
from edl.jobs.failures import Rules
from edl.jobs.podset import PodSetPlan
from edl.jobs.pytorch_environment import WORKER
from edl.jobs.pytorch_status import ROLE, Verdict, cause_of
from edl.jobs.slots import SlotPod, slot_name
from edl.jobs.upkeep import soonest


def judged(
    job: ElasticJob, old: ElasticStatus, plan: PodSetPlan, rules: Rules, size: int, now: float
) -> Verdict | None:
    name = job.metadata.name
    if plan.complete:
        return Verdict("Succeeded", "ElasticJobSucceeded", f"ElasticJob {name} is successfully completed.")
    if not plan.record.done:
        failed = _exhausted(job, plan, rules) or _too_few(job, plan, size)
        if failed is not None:
            return failed
    return _late(job, old, plan, now)


def _exhausted(job: ElasticJob, plan: PodSetPlan, rules: Rules) -> Verdict | None:
    """The user's own limit of retries ends the job, however many workers are left."""
    if job.spec.backoff_limit is None or job.spec.replica_specs.worker.restart_policy == "Never":
        return None
    last = next((one.pod for one in plan.failures if one.final and one.count >= rules.limit), None)
    if last is None:
        return None
    words = f"Job {job.metadata.name} has failed because it has reached the specified backoff limit"
    return Verdict("Failed", "JobFailed", words, cause_of(last))


def _too_few(job: ElasticJob, plan: PodSetPlan, size: int) -> Verdict | None:
    """Design 004: the job fails if active workers are fewer than minReplicas. Who is replaced, or waits for room, is
    no loss; who is given up is."""
    lost = len(plan.given_up)
    if size == 0 or not lost or size - lost >= (job.spec.min_replicas or 1):
        return None
    words = f"ElasticJob {job.metadata.name} is failed because {lost} {ROLE} replica(s) failed."
    return Verdict("Failed", "ElasticJobFailed", words, _first(job, plan))


def _first(job: ElasticJob, plan: PodSetPlan) -> RootCause:
    pods = [pod for pod in plan.given_up if isinstance(pod, SlotPod)]
    if not pods:
        index = next(one for one in plan.given_up if isinstance(one, int))
        return RootCause(pod=slot_name(job.metadata.name, WORKER, index))
    return cause_of(min(pods, key=lambda pod: pod.ended or pod.created))


def _late(job: ElasticJob, old: ElasticStatus, plan: PodSetPlan, now: float) -> Verdict | None:
    name, start = job.metadata.name, _start_by(job, old)
    enough = plan.counts.active + plan.counts.succeeded >= (job.spec.min_replicas or 1)
    deadline = _deadline(job, old)
    if deadline is not None and now >= deadline:
        words = f"Job {name} has failed because it was active longer than specified deadline"
        return Verdict("Failed", "JobFailed", words)
    if start is not None and now >= start and not enough:
        wanted, within = job.spec.min_replicas, job.spec.start_timeout_seconds
        words = f"ElasticJob {name} is failed because fewer than {wanted} {ROLE} replica(s) ran within {within} s."
        return Verdict("Failed", "StartTimeout", f"{words} {old.reason}".strip())
    return None


def wakes(job: ElasticJob, status: ElasticStatus) -> float | None:
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
