"""Compares a pod's resources with those of the plan, and decides whether a running pod can be resized in place.

A pod bears a note of what was asked when it was made: what is in its spec may be another's doing (defaults of the
namespace, a webhook). Before a pod is resized that note is taken away, and from then on its spec counts.
"""

from collections.abc import Mapping
from typing import Any, Literal

from edl.api.kubernetes import quantity, timestamp
from edl.api.kubernetes.pod import Pod, ResourceList, ResourceRequirements
from edl.api.labels import RESOURCES
from edl.jobs.core.actions import Change, add, escaped
from edl.jobs.core.children import change
from edl.jobs.easydl.job_resource import container_resources
from edl.jobs.easydl.roles import NOTHING, merged, slot_index
from edl.jobs.easydl.types import FollowedPlan

RESIZABLE = frozenset({"cpu", "memory"})
DEFERRED_FOR = 30.0
"""How long a node may keep a resize waiting for room before a new pod is made instead."""

Fit = Literal["fits", "resized", "resizing", "stuck", "differs"]
Asked = Mapping[str, str]


def asked(plan: FollowedPlan, job: str, role: str, index: int, gpu: str) -> Asked:
    """What a slot's pod is to be given, by Kubernetes' names."""
    resource = (plan.roles or {}).get(role, NOTHING).resource
    for update in plan.updates:
        if slot_index(job, role, update.name) == index:
            resource = merged(resource, update.resource)
    return container_resources(resource, gpu)


def resources_text(wanted: Asked) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(wanted.items())) or "as in the template"


def fit(pod: Pod, wanted: Asked, now: float) -> Fit:
    note = pod.metadata.annotations.get(RESOURCES)
    if note is not None:
        return "fits" if note == resources_text(wanted) else "differs"
    given = pod.spec.containers[0].resources if pod.spec.containers else None
    if given is None or not (_has(given.requests, wanted) and _has(given.limits, wanted)):
        return "differs"
    if _gives(pod, {name: value for name, value in wanted.items() if name in RESIZABLE}):
        return "resized"
    return "stuck" if _refused(pod, now) else "resizing"


def resizable(pod: Pod, wanted: Asked) -> bool:
    """Whether it suffices to resize it: only cpu and memory change, both of which it has as request and limit alike
    (another class of service needs another pod), and its node tells what it gives, as those that can resize do."""
    if pod.status.phase != "Running" or not pod.spec.containers or _given(pod) is None:
        return False
    given = pod.spec.containers[0].resources
    differing = {name for name in wanted if not _same(given.limits.get(name), wanted[name])}
    if not differing <= RESIZABLE or not wanted:
        return False
    named = {*given.requests, *given.limits}
    alike = all(_same(given.requests.get(name), given.limits.get(name)) for name in RESIZABLE & named)
    return alike and differing <= named


def resize(pod: Pod, wanted: Asked) -> Change:
    """First the note goes, by a write of its own; then the resize is asked for. Each reconcile does what is left."""
    if RESOURCES in pod.metadata.annotations:
        path = f"/metadata/annotations/{escaped(RESOURCES)}"
        return change(Pod.KIND, pod, [{"op": "remove", "path": path}])
    given = pod.spec.containers[0].resources
    body: dict[str, Any] = {
        "requests": {**given.requests, **wanted},
        "limits": {**given.limits, **wanted},
    }
    return change(Pod.KIND, pod, [add("/spec/containers/0/resources", body)], subresource="resize")


def resize_message(pod: Pod) -> str:
    pending = pod.status.condition("PodResizePending")
    if pending is not None and pending.status == "True":
        return f"its node waits with it: {pending.reason}{f': {pending.message}' if pending.message else ''}"
    return "its node is asked to resize it in place"


def _refused(pod: Pod, now: float) -> bool:
    pending = pod.status.condition("PodResizePending")
    if pending is None or pending.status != "True":
        return False
    since = timestamp.seconds(pending.last_transition_time) if pending.last_transition_time else now
    return pending.reason == "Infeasible" or now - since >= DEFERRED_FOR


def _gives(pod: Pod, wanted: Asked) -> bool:
    """Whether the node says that it has given this. Of cpu it reads shares back, which round small requests: the limit,
    which is what holds, is exact."""
    given = _given(pod)
    return given is not None and (_has(given.limits, wanted) or _has(given.requests, wanted))


def _given(pod: Pod) -> ResourceRequirements | None:
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    status = next((one for one in pod.status.container_statuses if one.name == name), None)
    return status.resources if status is not None else None


def _has(given: ResourceList, wanted: Asked) -> bool:
    return all(_same(given.get(name), value) for name, value in wanted.items())


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    try:
        return quantity.nano(one) == quantity.nano(other)
    except (ValueError, TypeError):
        return False
