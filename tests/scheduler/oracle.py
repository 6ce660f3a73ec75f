"""Checks of a plan from the objects alone, in the plainest way: none of the scheduler's own structures is used here."""

from edl.api.job_view import JobView, Role, replicas_at
from edl.api.kubernetes.core import Pod, PodSpec, convert
from edl.jobs import views
from edl.scheduler.placement.node_match import node_match_of
from edl.scheduler.placement.resources import PODS, Amounts, amounts, pod_requests
from edl.scheduler.plan import Decision, Plan
from edl.scheduler.reasons.codes import Code
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.objects import Objects

FRESH = (Code.STARTED, Code.GROWN)
# A job that holds its size for one of these could not grow by another's rule; for NO_ROOM there must be no room.
_WAITS_FOR_ROOM = Code.NO_ROOM


def check(objects: Objects, plan: Plan, settings: Settings) -> None:
    """AssertionError names the job and the rule."""
    jobs = {(job.kind, job.metadata.namespace, job.metadata.name): views.view(job) for job in objects.jobs}
    assert len(plan.jobs) == len(objects.jobs) + len(objects.invalid)
    assert [(job.namespace, job.name) for job in plan.jobs] == sorted((job.namespace, job.name) for job in plan.jobs)
    planned = [(decision, jobs[decision.kind, decision.namespace, decision.name]) for decision in plan.jobs]
    for decision, view in planned:
        assert decision.reason, (decision.name, "every target has a reason")
        _sizes(decision, view)
        _counts(objects, decision, view)
    free = _free(objects)
    for decision, view in sorted(planned, key=lambda one: one[0].code in FRESH):
        _place(objects, decision, view, free)
    _quotas(objects, plan, dict(jobs))
    _bounded(plan, [view for _, view in planned])
    if settings.max_load == "1":
        _work_conserving(plan, [(decision, view) for decision, view in planned], free, objects)


def _sizes(decision: Decision, view: JobView) -> None:
    if view.pause:
        granted = view.target if view.target is not None else decision.current
        assert decision.target == granted, (decision, "a paused job keeps its size")
        return
    if view.fixed and not view.pin:
        return
    least = min(view.min, view.minimum or view.target or view.min)
    assert decision.target == 0 or least <= decision.target <= view.max, (decision, "min and max are kept")
    assert decision.target >= view.min or decision.target <= (view.target or 0), (decision, "a minimum is a gang")
    if view.sizes and decision.target >= view.min:
        assert decision.target in view.sizes, (decision, "only allowed sizes")


def _live(objects: Objects, decision: Decision, role: str) -> list[Pod]:
    return [
        pod
        for pod in objects.pods
        if pod.metadata.labels.get("edl.dev/job") == decision.name
        and pod.metadata.labels.get("edl.dev/role") == role
        and pod.metadata.namespace == decision.namespace
        and pod.metadata.deletion_timestamp is None
        and not pod.finished
        and any(owner.uid == decision.uid for owner in pod.metadata.owner_references)
    ]


def _counts(objects: Objects, decision: Decision, view: JobView) -> None:
    """Leavers exist, and no more stay than the target wants."""
    for role in view.roles:
        live = _live(objects, decision, role.name)
        here: dict[str, int] = {}
        for pod in live:
            here[pod.spec.node_name] = here.get(pod.spec.node_name, 0) + 1
        leaving = decision.leavers.get(role.name, {})
        for node, count in leaving.items():
            assert count <= here.get(node, 0), (decision, role.name, node, "more leave than there are")
        wanted = replicas_at(role, decision.target)
        assert decision.roles[role.name] == wanted
        stay = len(live) - sum(leaving.values())
        assert stay <= wanted, (decision, role.name, stay, "more stay than the target wants")
        if decision.code in FRESH:
            new = sum(decision.placements.get(role.name, {}).values())
            assert stay + new == wanted, (decision, role.name, "every new pod has a place")


def _free(objects: Objects) -> dict[str, Amounts]:
    """What is free now on nodes that take pods."""
    free: dict[str, Amounts] = {}
    for node in objects.nodes:
        if node.ready and not node.spec.unschedulable:
            free[node.metadata.name] = amounts(node.status.allocatable)
    for pod in objects.pods:
        if pod.spec.node_name in free and not pod.finished:
            for name, units in (pod_requests(pod.spec) | {PODS: 1}).items():
                have = free[pod.spec.node_name]
                have[name] = have.get(name, 0) - units
    return free


def _spec(role: Role) -> tuple[PodSpec, Amounts]:
    spec = convert(role.template["spec"], PodSpec)
    return spec, pod_requests(spec) | {PODS: 1}


def _place(objects: Objects, decision: Decision, view: JobView, free: dict[str, Amounts]) -> None:
    """The packing that the plan exhibits: growth goes onto room that is free now, on nodes that the pods may use.

    Pods that were granted before may also wait for room that others are about to leave.
    """
    nodes = {node.metadata.name: node for node in objects.nodes}
    for role in view.roles:
        spec, asked = _spec(role)
        for name, count in decision.placements.get(role.name, {}).items():
            assert name in free, (decision, name, "on a node that takes no pods")
            node = nodes[name]
            refusal = node_match_of(spec).refusal(name, node.metadata.labels, node.spec.taints)
            assert refusal is None, (decision, name, refusal)
            for _ in range(count):
                fits = all(free[name].get(resource, 0) >= units for resource, units in asked.items())
                assert fits or decision.code not in FRESH, (decision, name, "more than is free now")
                if fits:
                    free[name] = {resource: units - asked.get(resource, 0) for resource, units in free[name].items()}


def _quotas(objects: Objects, plan: Plan, jobs: dict[tuple[str, str, str], JobView]) -> None:
    """New pods stay within what is left of pods and CPU."""
    for quota in objects.quotas:
        namespace = quota.metadata.namespace
        hard = amounts({name.removeprefix("requests."): value for name, value in quota.spec.hard.items()})
        left = dict(hard)
        for pod in objects.pods:
            if pod.metadata.namespace == namespace and not pod.finished:
                for name, units in (pod_requests(pod.spec) | {PODS: 1}).items():
                    left[name] = left.get(name, 0) - units
        for decision in plan.jobs:
            if decision.namespace != namespace or decision.code not in FRESH:
                continue
            for role in jobs[decision.kind, decision.namespace, decision.name].roles:
                new = sum(decision.placements.get(role.name, {}).values())
                for name, units in _spec(role)[1].items():
                    left[name] = left.get(name, 0) - units * new
                    assert not new or name not in hard or left[name] >= 0, (decision, name, "within quota")


def _bounded(plan: Plan, views_of_jobs: list[JobView]) -> None:
    """Each step grants one of the sum of ranges, or ends a unit's turn for good."""
    ranges = sum(view.max - view.min for view in views_of_jobs)
    assert plan.steps <= ranges + 3 * len(views_of_jobs), (plan.steps, ranges)


def _work_conserving(
    plan: Plan, planned: list[tuple[Decision, JobView]], free: dict[str, Amounts], objects: Objects
) -> None:
    """Nobody is held for want of room while its next instance fits; unless room is kept for one that waits for it."""
    waiting = any(decision.code is Code.ROOM_COMING or decision.code in FRESH for decision, _ in planned)
    unsettled = any(_unsettled(objects, decision, view) for decision, view in planned)
    if waiting or unsettled or plan.foreign:
        return
    for decision, view in planned:
        if decision.code is not _WAITS_FOR_ROOM or not decision.target or view.sizes:
            continue
        more = [replicas_at(role, decision.target + 1) - replicas_at(role, decision.target) for role in view.roles]
        if sum(more) != 1:
            continue
        spec, asked = _spec(view.lead)
        for name, have in free.items():
            node = next(node for node in objects.nodes if node.metadata.name == name)
            if node_match_of(spec).refusal(name, node.metadata.labels, node.spec.taints) is None:
                fits = all(have.get(resource, 0) >= units for resource, units in asked.items())
                assert not fits, (decision, name, "there was room")


def _unsettled(objects: Objects, decision: Decision, view: JobView) -> bool:
    """Pods of it have no node yet, or are still to be made: they have a claim on what is free."""
    return any(
        len([pod for pod in _live(objects, decision, role.name) if pod.spec.node_name])
        != replicas_at(role, decision.target)
        for role in view.roles
    )
