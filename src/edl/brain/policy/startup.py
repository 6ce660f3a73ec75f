"""The first plan of a job: what served similar jobs best, or safe small defaults that the running plans grow from.

Covers optimize_job_ps_cold_create_resource (rule 1), optimize_job_ps_create_resource (2),
optimize_job_worker_create_resource (7) and optimize_job_worker_create_oom_resource (8).
"""

from collections.abc import Sequence

from .facts import PARAMETER_SERVER, Capacity, Features, Plan, Roles
from .lessons import Lesson, Peak
from .settings import Settings
from .units import EVALUATOR, SERVER, WORKER, Resource, RolePlan, cores, mebibytes

Similar = Sequence[tuple[float, Lesson]]
BYTES_PER_PARAMETER = 12  # a number and two of the optimiser's beside it, in 32 bits
MIB = 2**20


def start(features: Features, similar: Similar, capacity: Capacity | None, settings: Settings) -> Plan:
    plan = _from_similar(features, similar, settings) if similar else _cold(features, settings)
    return _fitted(plan, capacity)


def _cold(features: Features, settings: Settings) -> Plan:
    each = Resource(cpu=settings.cold_cpu, memory=settings.cold_memory, gpu=features.gpu or None)
    roles = {WORKER: RolePlan(settings.cold_workers, each)}
    if features.strategy == PARAMETER_SERVER:
        model = features.parameters * BYTES_PER_PARAMETER / MIB / settings.cold_servers
        memory = min(settings.max_memory, max(settings.cold_memory, mebibytes(model * settings.headroom)))
        roles[SERVER] = RolePlan(settings.cold_servers, Resource(cpu=settings.cold_cpu, memory=memory))
    return Plan(
        rule="start-cold",
        reason="no similar job is known: small sizes, to be grown by what is measured",
        roles=_with_evaluator(features, roles),
        confidence=0.1,
    )


def _from_similar(features: Features, similar: Similar, settings: Settings) -> Plan:
    """Sizes of the most similar job that went well; resources that would have been enough for all of them."""
    good = [pair for pair in similar if pair[1].throughput > 0 and pair[1].outcome != "failed"] or list(similar)
    likeness, model = good[0]
    roles = {
        role: RolePlan(plan.replicas, _enough(role, plan.resource, good, settings))
        for role, plan in model.roles.items()
        if role != EVALUATOR
    }
    if features.gpu:
        worker = roles[WORKER]
        roles[WORKER] = RolePlan(worker.replicas, Resource(gpu=features.gpu).over(worker.resource))
    agree = sum(1 for _, lesson in good if _near(lesson, model))
    return Plan(
        rule="start-similar",
        reason=f"as {model.job}, the most similar of {len(similar)} past jobs ({likeness:.0%} alike), fared best",
        roles=_with_evaluator(features, roles),
        confidence=round(likeness * (agree + 1) / (agree + 2), 3),
        expected=model.throughput,
    )


def _near(lesson: Lesson, model: Lesson) -> bool:
    """Whether two jobs did best at about the same size."""
    a, b = lesson.roles[WORKER].replicas, model.roles[WORKER].replicas
    return lesson.job != model.job and abs(a - b) <= max(1, 0.25 * b)


def _enough(role: str, had: Resource, similar: Similar, settings: Settings) -> Resource:
    """Memory: half as much again as any of them used, and clearly more than what any was killed with."""
    peaks = [lesson.peaks.get(role, Peak()) for _, lesson in similar]
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
    """One, as large as a worker: it runs the same model on other data."""
    return {**roles, EVALUATOR: RolePlan(1, roles[WORKER].resource)} if features.evaluator else roles


def _fitted(plan: Plan, capacity: Capacity | None) -> Plan:
    """No more workers than the cluster has room for beside the parameter servers; one in any case."""
    if capacity is None:
        return plan
    others = [role for name, role in plan.roles.items() if name != WORKER]
    worker = plan.roles[WORKER]
    left = [
        (capacity.cpu - sum(role.replicas * (role.resource.cpu or 0) for role in others), worker.resource.cpu),
        (capacity.memory - sum(role.replicas * (role.resource.memory or 0) for role in others), worker.resource.memory),
        (capacity.gpu - sum(role.replicas * (role.resource.gpu or 0) for role in others), worker.resource.gpu),
    ]
    room = min([int(have // each) for have, each in left if each], default=worker.replicas)
    count = max(1, min(worker.replicas, room))
    if count == worker.replicas:
        return plan
    roles = {**plan.roles, WORKER: RolePlan(count, worker.resource)}
    return Plan(
        rule=plan.rule,
        reason=f"{plan.reason}; the cluster has room for {count} of {worker.replicas} workers",
        roles=roles,
        confidence=plan.confidence,
    )
