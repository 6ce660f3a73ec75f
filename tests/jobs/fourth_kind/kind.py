"""SleepJob: pods that sleep, between one and `most` of them."""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from edl.api.job_view import Installation, JobView, Role
from edl.api.kubernetes.core import Pod
from edl.api.kubernetes.meta import EMPTY, ObjectMeta
from edl.api.kubernetes.templates import whole_template
from edl.api.schema.problem import Problem
from edl.api.schema.spec import Instances, Spec, Text
from edl.api.status import ElasticStatus, ReplicaCounts, Scale
from edl.jobs.core.actions import Create, Delete
from edl.jobs.core.defaults import given_or
from edl.jobs.core.grant import Grant, grant_in_status, with_grant
from edl.jobs.core.kind import AGE, Column, JobKind
from edl.jobs.core.outcome import Outcome
from edl.jobs.core.pods import environment
from edl.jobs.core.pods.observed_pods import ObservedPods
from edl.jobs.core.pods.pod_builder import build_template, slot_pod
from edl.jobs.core.pods.pod_set import DesiredPods, plan_pods
from edl.jobs.core.pods.slot_history import from_status, to_status
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.core.reconcile import JobReconcile
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.core.view import JobTraits, build_view

GROUP, NAME, PLURAL, SHORT_NAME, SLEEPER = "toys.example.com", "SleepJob", "sleepjobs", "sj", "sleeper"


class SleepJobSpec(Spec, frozen=True, kw_only=True):
    """Who sleeps."""

    image: Annotated[Text, Meta(description="Image with a `sleep` command.")]
    most: Annotated[Instances | None, Meta(description="The most pods. Omitted: 2.")] = None
    suspend: Annotated[bool | None, Meta(description="true: nobody sleeps.")] = None


class SleepJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, kw_only=True):
    """Pods that sleep."""

    api_version: str = msgspec.field(default=f"{GROUP}/v1", name="apiVersion")
    kind: str = NAME
    metadata: ObjectMeta = ObjectMeta()
    spec: SleepJobSpec
    status: ElasticStatus = ElasticStatus()


def with_defaults(job: SleepJob) -> SleepJob:
    return replace(job, spec=replace(job.spec, most=given_or(job.spec.most, 2)))


def problems(written: SleepJob, job: SleepJob) -> Iterator[Problem]:
    if " " in job.spec.image:
        yield Problem(("spec", "image"), "has a space in it")


def sleep_view(
    job: SleepJob,
    /,
    *,
    companion: None = None,
    installation: Installation | None = None,
    priority_classes: Mapping[str, int] = EMPTY,
) -> JobView:
    job = with_defaults(job)
    most = job.spec.most or 1
    containers = [{"name": SLEEPER, "image": job.spec.image, "resources": {"requests": {"cpu": "1"}}}]
    template = whole_template({"spec": {"containers": containers}})
    role = Role(name=SLEEPER, min=1, max=most, sizes=(1, most), lead=True, template=template)
    traits = JobTraits(resource=f"{PLURAL}.{GROUP}", tag=SHORT_NAME, roles=(role,), scale=job.status.scale or Scale())
    return build_view(job, traits, priority_classes)


class SleepReconcile(JobReconcile[SleepJob]):
    def __init__(self, request: ReconcileRequest[SleepJob]) -> None:
        super().__init__(request)
        self._view = sleep_view(request.job)
        self._scale = request.job.status.scale or Scale()
        self._grant = request.grant or grant_in_status(self._scale)

    def _planned(self, grant: Grant) -> Outcome:
        status, view = self._request.job.status, self._view
        pods = ObservedPods(self._observed.pods, view.name, SLEEPER, view.uid, self._now)
        memory = next(iter(status.slots), None)
        plan = plan_pods(DesiredPods(view.name, SLEEPER, grant.target), pods.slots, from_status(memory), self._now)
        kept = to_status(SLEEPER, plan.record)
        scale = with_grant(self._scale, grant, self._now, refresh_message=self._refresh_message)
        running = plan.counts.active
        after = replace(
            status,
            phase="Running" if running else "Pending",
            scale=replace(scale, current=running),
            replica_statuses={SLEEPER: ReplicaCounts(**msgspec.structs.asdict(plan.counts))},
            slots=(kept,) if kept is not None else (),
        )
        settings = self._request.settings
        variables = environment.common(view, SLEEPER, settings.access)
        template = build_template(
            view.lead.template, view, SLEEPER, variables, settings, restart_policy="Never", more_labels={}
        )
        made = [
            Create(
                Pod.KIND, new.name, slot_pod(template, view, SLEEPER, new, self._owner, subdomain="", environment=())
            )
            for new in plan.create
        ]
        gone = [Delete(Pod.KIND, pod.name, pod.uid) for pod in plan.delete]
        return Outcome(after, urgent=scale.target != self._scale.target, actions=(*gone, *made))

    def _unplanned(self, grant: Grant) -> Outcome:
        return Outcome(self._request.job.status)

    def _released(self) -> Outcome:
        return Outcome(self._request.job.status)


KIND = JobKind(
    name=NAME,
    group=GROUP,
    versions=("v1",),
    plural=PLURAL,
    singular="sleepjob",
    short_names=(SHORT_NAME,),
    type=SleepJob,
    columns=(Column("Phase", ".status.phase"), Column("Now", ".status.scale.current", "integer"), AGE),
    default=with_defaults,
    validate=problems,
    status=ElasticStatus,
    max_field="most",
    view=sleep_view,
    reconcile=lambda request: SleepReconcile(request).outcome(),
    roles=lambda status: {role: counts.desired for role, counts in (status.replica_statuses or {}).items()},
    address=slot_name,
)
