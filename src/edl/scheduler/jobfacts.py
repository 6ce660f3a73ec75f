"""One job of the snapshot: what it asks for, and what the census found of it."""

from collections.abc import Sequence

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
    view = job.view
    created = moment(view.creation_timestamp)
    state, note = _state(view)
    waiting = [sorted(pods, key=lambda pod: pod.pod.metadata.name) for pods in tally.unbound]
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
        roles=roles,
        scaled=job.lead,
        pods_at=job.pods_at,
        roles_at=job.pods_at.named,
        gpu=any(role.shape.gpus for role in roles),
        elastic=not view.fixed,
        why_fixed=view.fixed,
        paused=view.pause,
        pinned=view.pin,
        create_early=view.admission == "create",
        window=view.freezing_window,
        rescale_seconds=view.rescale_seconds,
        created=created,
        last_scale=view.last_scale_time,
        started=job.started,
        current=tally.live[job.lead] + (len(waiting[job.lead]) if waiting else 0) if size is None else size,
        granted=view.target,
        bound=tuple(tally.bound),
        live=tuple(tally.live),
        unbound=tuple([tuple([census.hint(pod) for pod in pods]) for pods in waiting]),
        done=tally.done,
        pod_seconds=view.pod_seconds,
        running=tally.running,
        started_sum=tally.started_sum,
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
