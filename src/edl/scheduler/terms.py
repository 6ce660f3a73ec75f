"""What one job asks for, in the light of its namespace: sizes, roles, priority. Made once per version of the job
and kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from edl.api import annotations, views
from edl.api.annotations import LABEL_JOB, LABEL_ROLE
from edl.api.core import LimitRange, Namespace, PodSpec, PriorityClass, ResourceQuota, convert
from edl.api.job_resource import JobResource
from edl.api.pytorch_job import ElasticJob as PytorchJob
from edl.api.roles import Installation, JobView, Role, replicas_at
from edl.api.training_job import KIND as TRAINING_JOB
from edl.scheduler.bounds import admitted, counted_names, in_scope, unstated
from edl.scheduler.nearness import demands
from edl.scheduler.objects import Invalid
from edl.scheduler.owners import Known
from edl.scheduler.resources import PODS, Amounts, pod_limits, pod_requests
from edl.scheduler.where import Where, where_of

_RUNNING_PHASES = ("running", "scaling", "Running", "Scaling", "Restarting")


class Country:
    """What holds for all jobs of a cluster and its namespaces."""

    def __init__(
        self,
        namespaces: Iterable[Namespace],
        classes: Iterable[PriorityClass],
        ranges: Iterable[LimitRange],
        quotas: Iterable[ResourceQuota],
    ) -> None:
        self.classes = {one.metadata.name: one.value for one in classes}
        self.default_priority = max((one.value for one in classes if one.global_default), default=0)
        self.labels: dict[str, Mapping[str, str]] = {}
        self.caps: dict[str, int] = {}
        for namespace in namespaces:
            self.labels[namespace.metadata.name] = namespace.metadata.labels
            try:
                self.caps[namespace.metadata.name] = annotations.priority(
                    namespace.metadata.annotations[annotations.MAX_PRIORITY]
                )
            except (KeyError, ValueError):
                continue  # no cap, or none that can be understood: then none
        self.ranges = _by_namespace(ranges)
        self.quotas = _by_namespace(quotas)

    def pod_priority(self, spec: PodSpec) -> int:
        """Kubernetes' own."""
        if spec.priority is not None:
            return spec.priority
        return self.classes.get(spec.priority_class_name, self.default_priority)


def _by_namespace(items: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in sorted(items, key=lambda item: item.metadata.name):
        found.setdefault(item.metadata.namespace, []).append(item)
    return found


class Crew(msgspec.Struct, frozen=True, eq=False):
    """What counting pods must know of a job: the places of its roles, which one leads, what their pods ask for."""

    roles: Mapping[str, int]
    lead: int
    requests: Sequence[Amounts]


class RoleTerms(msgspec.Struct, frozen=True, eq=False):
    name: str
    spec: PodSpec
    labels: Mapping[str, str]
    requests: Amounts
    limits: Amounts
    where: Where
    priority: int
    demands: bool
    problem: str = ""


class Sizing:
    """Pods of every role at a size, worked out once per size."""

    __slots__ = ("_known", "_named", "_roles")

    def __init__(self, roles: Sequence[Role]) -> None:
        self._roles = roles
        self._known: dict[int, tuple[int, ...]] = {}
        self._named: dict[int, dict[str, int]] = {}

    def __call__(self, size: int) -> tuple[int, ...]:
        pods = self._known.get(size)
        if pods is None:
            pods = self._known[size] = tuple([replicas_at(role, size) for role in self._roles])
        return pods

    def named(self, size: int) -> Mapping[str, int]:
        named = self._named.get(size)
        if named is None:
            named = self._named[size] = dict(zip([role.name for role in self._roles], self(size), strict=True))
        return named


class Terms(msgspec.Struct, frozen=True, eq=False):
    view: JobView
    roles: tuple[RoleTerms, ...]
    lead: int
    priority: int
    pods_at: Sizing
    crew: Crew
    known: Known
    asks: frozenset[str]
    """Names of the resources that its pods ask for."""
    started: bool
    max_name: str


def terms_of(
    job: views.Job, resource: JobResource | None, country: Country, installation: Installation | None
) -> Terms | Invalid:
    """`job` is valid, or what is wrong with it is plain to see here."""
    view = views.view(job, resource=resource, installation=installation, priority_classes=country.classes)
    if not 0 <= view.min <= view.max:
        return _invalid(job, f"its minimum is {view.min} and its maximum {view.max}")
    try:
        roles = tuple(_role(view, role, country) for role in view.roles)
    except msgspec.ValidationError as error:
        return _invalid(job, f"its pod template cannot be read: {error}")
    training = view.kind == TRAINING_JOB
    lead = next(place for place, role in enumerate(view.roles) if role.lead)
    return Terms(
        view=view,
        roles=roles,
        lead=lead,
        priority=min(view.priority, country.caps.get(view.namespace, view.priority)),
        pods_at=Sizing(view.roles),
        crew=Crew({role.name: place for place, role in enumerate(roles)}, lead, [role.requests for role in roles]),
        asks=frozenset[str]().union(*(role.requests for role in roles)),
        known=Known(view.kind, view.api_version, view.namespace, view.name, view.uid, roles[lead].name),
        started=view.phase in _RUNNING_PHASES or view.pod_seconds > 0 or getattr(job.status, "minimum_reached", False),
        max_name="max-instance" if training else "maxReplicas" if isinstance(job, PytorchJob) else "worker.replicas",
    )


def _invalid(job: views.Job, problem: str) -> Invalid:
    meta = job.metadata
    return Invalid(job.kind, job.api_version, meta.namespace, meta.name, meta.uid, problem)


def _role(view: JobView, role: Role, country: Country) -> RoleTerms:
    template = role.template
    spec, problem = admitted(convert(template["spec"], PodSpec), country.ranges.get(view.namespace, ()))
    for quota in country.quotas.get(view.namespace, ()):
        if not problem and in_scope(spec, quota):
            problem = next(filter(None, (unstated(spec, name) for name in counted_names(quota))), "")
    labels = (template.get("metadata") or {}).get("labels") or {}
    return RoleTerms(
        name=role.name,
        spec=spec,
        labels={**labels, LABEL_JOB: view.name, LABEL_ROLE: role.name},
        requests=pod_requests(spec) | {PODS: 1},
        limits=pod_limits(spec),
        where=where_of(spec),
        priority=country.pod_priority(spec),
        demands=demands(spec),
        problem=problem,
    )
