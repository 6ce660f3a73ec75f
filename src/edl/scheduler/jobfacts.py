"""One job of the snapshot: what it asks for, and what the census found of it."""

from collections.abc import Sequence

from msgspec import structs

from edl.api.annotations import LABEL_ROLE
from edl.api.core import Job, ReplicaSet
from edl.api.roles import JobView
from edl.scheduler.census import Census, Tally
from edl.scheduler.facts import JobFacts, RoleFacts, State
from edl.scheduler.objects import Invalid
from edl.scheduler.owners import Child, Known
from edl.scheduler.podfacts import moment
from edl.scheduler.terms import Terms


def job_facts(job: Terms, roles: tuple[RoleFacts, ...], tally: Tally, size: int | None, census: Census) -> JobFacts:
    """`size`: of the child of the leading role, if there is one."""
    waiting = [sorted(pods, key=lambda pod: pod.pod.metadata.name) for pods in tally.unbound]
    live = tally.live[job.lead] + (len(waiting[job.lead]) if waiting else 0)
    return structs.replace(
        _wishes(job),
        roles=roles,
        gpu=any(role.shape.gpus for role in roles),
        current=live if size is None else size,
        bound=tuple(tally.bound),
        live=tuple(tally.live),
        unbound=tuple([tuple([census.hint(pod) for pod in pods]) for pods in waiting]),
        done=tally.done,
        running=tally.running,
        started_sum=tally.started_sum,
    )


def _wishes(job: Terms) -> JobFacts:
    """What the object itself says."""
    view = job.view
    state, note = _state(view)
    return JobFacts(
        kind=view.kind,
        api_version=view.api_version,
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        obj=view,
        state=state,
        note=note,
        priority=job.priority,
        min=view.min,
        max=view.max,
        start=view.start,
        sizes=view.sizes,
        max_name=job.max_name,
        scaled=job.lead,
        pods_at=job.pods_at,
        roles_at=job.pods_at.named,
        elastic=not view.fixed,
        why_fixed=view.fixed,
        paused=view.pause,
        pinned=view.pin,
        create_early=view.admission == "create",
        window=view.freezing_window,
        rescale_seconds=view.rescale_seconds,
        created=moment(view.creation_timestamp),
        last_scale=view.last_scale_time,
        started=job.started,
        granted=view.target,
        pod_seconds=view.pod_seconds,
    )


def child_size(job: Known, children: Sequence[Child]) -> int | None:
    """The size that the child of the leading role has, if there is one."""
    for child in children:
        named = child.metadata.name == f"{job.name}-{job.lead}"
        leads = named or child.metadata.labels.get(LABEL_ROLE, "") == job.lead
        if isinstance(child, Job):
            return max(0, child.spec.parallelism)
        if isinstance(child, ReplicaSet) and leads:
            return max(0, child.spec.replicas)
    return None


def _state(view: JobView) -> tuple[State, str]:
    if view.deletion_timestamp is not None:
        return "deleting", ""
    if view.finished:
        return "finished", view.phase
    return ("suspended", "") if view.suspend else ("active", "")


def left_alone(job: Invalid, children: Sequence[Child], live: int) -> JobFacts:
    sizes = [child.spec.parallelism for child in children if isinstance(child, Job)]
    return JobFacts(
        kind=job.kind,
        api_version=job.api_version,
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        state="invalid",
        note=job.problem,
        current=max(0, sizes[0]) if sizes else live,
    )
