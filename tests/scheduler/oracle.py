"""Checks of a plan from the objects alone, in the plainest way: nothing here uses the scheduler's own data
structures.
"""

from typing import Any

from edl.api import views
from edl.api.core import Node, Pod, convert
from edl.api.roles import JobView, replicas_at
from edl.scheduler.objects import Objects
from edl.scheduler.plan import Decision, Plan
from edl.scheduler.reasons import Code
from edl.scheduler.resources import PODS, Amounts, amounts, pod_requests
from edl.scheduler.where import where_of

_UNPLACED = (Code.OPTIMISTIC,)


def check(objects: Objects, plan: Plan) -> None:
    """AssertionError names the job and the rule."""
    jobs = {(job.kind, job.metadata.namespace, job.metadata.name): views.view(job) for job in objects.jobs}
    assert len(plan.jobs) == len(objects.jobs) + len(objects.invalid)
    for decision in plan.jobs:
        view = jobs.get((decision.kind, decision.namespace, decision.name))
        assert decision.reason, decision
        if view is not None:
            _sizes(decision, view)
            _counts(objects, decision, view)
    free = _free(objects)
    for decision in plan.jobs:
        view = jobs.get((decision.kind, decision.namespace, decision.name))
        if view is not None:
            _place(objects, decision, view, free, plan)


def _sizes(decision: Decision, view: JobView) -> None:
    if view.pause:
        granted = view.target if view.target is not None else decision.current
        assert decision.target == granted, (decision, "a paused job keeps its size")
        return
    if view.fixed and not view.pin:
        return
    assert decision.target == 0 or view.min <= decision.target <= view.max, (decision, "min and max are kept")
    if view.sizes and decision.target:
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
    """Pods that are, without those that leave, with those to be made, are what the target wants; leavers exist."""
    for role in view.roles:
        live = _live(objects, decision, role.name)
        here: dict[str, int] = {}
        for pod in live:
            here[pod.spec.node_name] = here.get(pod.spec.node_name, 0) + 1
        leaving = decision.leavers.get(role.name, {})
        for node, count in leaving.items():
            assert count <= here.get(node, 0), (decision, role.name, node, "more leave than there are")
        wanted = replicas_at(role, decision.target)
        left = len(live) - sum(leaving.values())
        assert left <= wanted, (decision, role.name, left, wanted, "more stay than the target wants")
        assert decision.roles[role.name] == wanted


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


def _place(objects: Objects, decision: Decision, view: JobView, free: dict[str, Amounts], plan: Plan) -> None:
    """The packing that the plan exhibits: growth goes onto room that is free now, on nodes that the pods may use."""
    nodes = {node.metadata.name: node for node in objects.nodes}
    for role in view.roles:
        spec: Any = convert(role.template["spec"], Pod.__annotations__["spec"])
        asked = pod_requests(spec) | {PODS: 1}
        where = where_of(spec)
        placed = decision.placements.get(role.name, {})
        for name, count in placed.items():
            assert name in free, (decision, name, "on a node that takes no pods")
            node: Node = nodes[name]
            assert where.refusal(name, node.metadata.labels, node.spec.taints) is None, (decision, name)
            for resource, units in asked.items():
                free[name][resource] = free[name].get(resource, 0) - units * count
                if decision.code in (Code.STARTED, Code.GROWN):
                    assert free[name][resource] >= 0, (decision, name, resource, "more than is free now")
        grown = decision.target > decision.current and decision.code in (Code.STARTED, Code.GROWN)
        if grown:
            stay = len(_live(objects, decision, role.name)) - sum(decision.leavers.get(role.name, {}).values())
            done = 0
            assert stay + sum(placed.values()) + done == replicas_at(role, decision.target), (
                decision,
                role.name,
                "placed",
            )
