"""Makes the first plan of a job: the sizes of the most similar past job, or small defaults to grow from.

Takes the place of the reference rules `optimize_job_ps_cold_create_resource`, `optimize_job_ps_create_resource`,
`optimize_job_worker_create_resource` and `optimize_job_worker_create_oom_resource` (docs/concepts/brain.md).
"""

from collections.abc import Sequence

import msgspec

from edl.brain.policy.bounds import bounded, smaller
from edl.brain.policy.past_jobs import JobSummary, PeakUsage
from edl.brain.policy.rules import START_COLD, START_SIMILAR
from edl.brain.policy.settings import Settings
from edl.protocol.job_facts import PARAMETER_SERVER, Capacity, Features, ResourcePlan, Roles
from edl.protocol.resources import EVALUATOR, SERVER, WORKER, Resource, RolePlan, cores, mebibytes

Similar = Sequence[tuple[float, JobSummary]]
BYTES_PER_PARAMETER = 12  # a number and two of the optimiser's beside it, in 32 bits
MIB = 2**20


def startup_plan(features: Features, similar: Similar, capacity: Capacity | None, settings: Settings) -> ResourcePlan:
    plan = _from_similar(features, similar, settings) if similar else _cold(features, settings)
    return _within_capacity(bounded(plan, settings, {}), capacity)


def _cold(features: Features, settings: Settings) -> ResourcePlan:
    each = Resource(cpu=settings.cold_cpu, memory=settings.cold_memory, gpu=features.gpu or None)
    roles = {WORKER: RolePlan(settings.cold_workers, each)}
    if features.strategy == PARAMETER_SERVER:
        model = features.parameters * BYTES_PER_PARAMETER / MIB / settings.cold_servers
        memory = min(settings.max_memory, max(settings.cold_memory, mebibytes(model * settings.headroom)))
        roles[SERVER] = RolePlan(settings.cold_servers, Resource(cpu=settings.cold_cpu, memory=memory))
    return ResourcePlan(
        rule=START_COLD,
        reason="no similar job is known: small sizes, to be grown by what is measured",
        roles=_with_evaluator(features, roles),
        confidence=0.1,
    )


def _from_similar(features: Features, similar: Similar, settings: Settings) -> ResourcePlan:
    """Sizes of the most similar successful job; resources that would have sufficed for all similar ones."""
    good = [pair for pair in similar if pair[1].throughput > 0 and pair[1].outcome != "failed"] or list(similar)
    likeness, model = good[0]
    roles = {
        role: RolePlan(plan.replicas, _sufficient(role, plan.resource, good, settings))
        for role, plan in model.roles.items()
        if role != EVALUATOR
    }
    if features.gpu:
        worker = roles[WORKER]
        roles[WORKER] = RolePlan(worker.replicas, Resource(gpu=features.gpu).over(worker.resource))
    agree = sum(1 for _, other in good if _similar_size(other, model))
    return ResourcePlan(
        rule=START_SIMILAR,
        reason=f"as {_described(model, features)} of {len(similar)} past jobs ({likeness:.0%} alike), fared best",
        roles=_with_evaluator(features, roles),
        confidence=round(likeness * (agree + 1) / (agree + 2), 3),
        expected=model.throughput,
    )


def _described(model: JobSummary, features: Features) -> str:
    """Only a job of the same namespace is named: another tenant's is nobody's business."""
    namespace, _, rest = model.job.partition("/")
    name = f"{namespace}/{rest.partition('/')[0]}, " if namespace == features.namespace else ""
    return f"{name}the most similar"


def _similar_size(other: JobSummary, model: JobSummary) -> bool:
    """Whether two jobs were fastest at about the same size."""
    a, b = other.roles[WORKER].replicas, model.roles[WORKER].replicas
    return other.job != model.job and abs(a - b) <= max(1, 0.25 * b)


def _sufficient(role: str, had: Resource, similar: Similar, settings: Settings) -> Resource:
    """Memory with headroom above the highest usage, and above the largest limit with which a pod was killed."""
    peaks = [past.peaks.get(role, PeakUsage()) for _, past in similar]
    used, killed = max(peak.memory for peak in peaks), max(peak.oom for peak in peaks)
    memory = mebibytes(max(used * settings.headroom, killed * settings.headroom)) if used or killed else had.memory
    busy = max(peak.cpu for peak in peaks)
    cpu = max(had.cpu or 0.0, cores(busy)) if busy else had.cpu
    wanted = Resource(
        cpu=None if cpu is None else min(cpu, settings.max_cpu),
        memory=None if memory is None else min(memory, settings.max_memory),
    )
    return wanted.over(had)


def _with_evaluator(features: Features, roles: Roles) -> Roles:
    """Adds one evaluator as large as a worker: it runs the same model on other data."""
    return {**roles, EVALUATOR: RolePlan(1, roles[WORKER].resource)} if features.evaluator else roles


def _within_capacity(plan: ResourcePlan, capacity: Capacity | None) -> ResourcePlan:
    """No pod larger than all there is, and no more workers than fit beside the other roles; one in any case."""
    if capacity is None:
        return plan
    plan = _with_pods_that_fit(plan, capacity)
    worker = plan.roles[WORKER]
    others = ((role.replicas, role.resource) for name, role in plan.roles.items() if name != WORKER)
    free = capacity.without(others).fits(worker.resource)
    count = max(1, worker.replicas if free is None else min(worker.replicas, free))
    if count == worker.replicas:
        return plan
    roles = {**plan.roles, WORKER: RolePlan(count, worker.resource)}
    reason = f"{plan.reason}; the cluster has room for {count} of {worker.replicas} workers"
    return ResourcePlan(rule=plan.rule, reason=reason, roles=roles, confidence=plan.confidence)


def _with_pods_that_fit(plan: ResourcePlan, capacity: Capacity) -> ResourcePlan:
    """A capacity of none of a resource says that nothing is free now, not how large a pod may be."""
    cpu, memory = capacity.cpu or float("inf"), capacity.memory or 1 << 32
    roles = {
        name: RolePlan(role.replicas, smaller(role.resource, cpu, memory, Resource()))
        for name, role in plan.roles.items()
    }
    return plan if roles == plan.roles else msgspec.structs.replace(plan, roles=roles)
