"""The terms of one job: sizes, roles and priority, with the limits of its namespace applied. Made once per version of
the job and kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from edl.api import annotations
from edl.api.job_view import Installation, JobView, Role, replicas_at
from edl.api.kubernetes.core import LimitRange, Namespace, PodSpec, PriorityClass, ResourceQuota, convert
from edl.api.labels import LABEL_JOB, LABEL_ROLE
from edl.jobs import views
from edl.jobs.core.objects import EdlObject
from edl.jobs.registry import job_kind_of
from edl.scheduler.placement.namespace_limits import admitted, counted_names, in_scope, unstated
from edl.scheduler.placement.node_match import NodeMatch, node_match_of
from edl.scheduler.placement.pod_affinity import has_pod_rules
from edl.scheduler.placement.resources import pod_amounts
from edl.scheduler.snapshot.objects import Invalid
from edl.scheduler.snapshot.ownership import JobIdentity
from edl.scheduler.snapshot.pod_facts import moment

Refusal = tuple[str, float]
"""The message, and since when; empty if there is none."""
NO_REFUSAL: Refusal = ("", 0.0)
_RUNNING_PHASES = ("running", "scaling", "Running", "Scaling", "Restarting")


class NamespaceTerms:
    """What holds for all jobs of a cluster or a namespace: priority classes and caps, labels, LimitRanges, quotas."""

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
        """Kubernetes' priority of the pod, which is not the job's."""
        if spec.priority is not None:
            return spec.priority
        return self.classes.get(spec.priority_class_name, self.default_priority)


def _by_namespace(items: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in sorted(items, key=lambda item: item.metadata.name):
        found.setdefault(item.metadata.namespace, []).append(item)
    return found


class RoleIndex(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What counting the pods of a job needs: the index of each role, the leading one, the requests of each."""

    roles: Mapping[str, int]
    lead: int
    requests: Sequence[Mapping[str, int]]


class RoleTerms(msgspec.Struct, frozen=True, eq=False, gc=False):
    name: str
    spec: PodSpec
    labels: Mapping[str, str]
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    node_match: NodeMatch
    priority: int
    has_pod_rules: bool
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


class JobTerms(msgspec.Struct, frozen=True, eq=False, gc=False):
    view: JobView
    roles: tuple[RoleTerms, ...]
    lead: int
    priority: int
    pods_at: Sizing
    role_index: RoleIndex
    identity: JobIdentity
    asks: frozenset[str]
    """Names of the resources that its pods request."""
    has_pod_rules: bool
    started: bool
    max_name: str
    refusal: Refusal = NO_REFUSAL


def read_job_terms(
    job: EdlObject, resource: EdlObject | None, namespace_terms: NamespaceTerms, installation: Installation | None
) -> JobTerms | Invalid:
    """`job` is valid, or what is wrong with it is plain to see here."""
    try:
        return _read(job, resource, namespace_terms, installation)
    except Exception as error:  # whatever it is, it is ours, and no reason to plan for nobody else
        return _invalid(job, f"EDL fails on it, which is a fault of EDL: {type(error).__name__}: {error}")


def _read(
    job: EdlObject, resource: EdlObject | None, namespace_terms: NamespaceTerms, installation: Installation | None
) -> JobTerms | Invalid:
    view = views.view(job, companion=resource, installation=installation, priority_classes=namespace_terms.classes)
    if not 0 <= view.min <= view.max:
        return _invalid(job, f"its minimum is {view.min} and its maximum {view.max}")
    try:
        roles = tuple(_role(view, role, namespace_terms) for role in view.roles)
    except msgspec.ValidationError as error:
        return _invalid(job, f"its pod template cannot be read: {error}")
    lead = next(index for index, role in enumerate(view.roles) if role.lead)
    return JobTerms(
        view=view,
        roles=roles,
        lead=lead,
        priority=min(view.priority, namespace_terms.caps.get(view.namespace, view.priority)),
        pods_at=Sizing(view.roles),
        role_index=RoleIndex(
            {role.name: index for index, role in enumerate(roles)}, lead, [role.requests for role in roles]
        ),
        asks=frozenset[str]().union(*(role.requests for role in roles)),
        has_pod_rules=any(role.has_pod_rules for role in roles),
        identity=JobIdentity(view.kind, view.api_version, view.namespace, view.name, view.uid, roles[lead].name),
        started=view.phase in _RUNNING_PHASES or view.pod_seconds > 0 or getattr(job.status, "minimum_reached", False),
        max_name=job_kind_of(job).max_field,
        refusal=_refusal(job),
    )


def _refusal(job: EdlObject) -> Refusal:
    """As the conditions of the job have it."""
    for condition in job.status.conditions:
        if condition.type in ("Refused", "NameTaken") and condition.status == "True":
            return condition.message, moment(condition.last_transition_time)
    return NO_REFUSAL


def _invalid(job: EdlObject, problem: str) -> Invalid:
    meta = job.metadata
    return Invalid(job.kind, job.api_version, meta.namespace, meta.name, meta.uid, problem)


def _role(view: JobView, role: Role, namespace_terms: NamespaceTerms) -> RoleTerms:
    template = role.template
    spec, problem = admitted(convert(template["spec"], PodSpec), namespace_terms.ranges.get(view.namespace, ()))
    for quota in namespace_terms.quotas.get(view.namespace, ()):
        if not problem and in_scope(spec, quota):
            problem = next(filter(None, (unstated(spec, name) for name in counted_names(quota))), "")
    labels = (template.get("metadata") or {}).get("labels") or {}
    requests, limits = pod_amounts(spec)
    return RoleTerms(
        name=role.name,
        spec=spec,
        labels={**labels, LABEL_JOB: view.name, LABEL_ROLE: role.name},
        requests=requests,
        limits=limits,
        node_match=node_match_of(spec),
        priority=namespace_terms.pod_priority(spec),
        has_pod_rules=has_pod_rules(spec),
        problem=problem,
    )
