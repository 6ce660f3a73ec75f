"""The JobResources as the operator knows them: read and checked once per version, and found by the job that they name.

One that is edited into something invalid is as if it were not there: the job goes on with the plan that it follows.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from edl.api.admission import check
from edl.api.job_resource import JobResource, JobResourceStatus
from edl.api.problem import Problem, errors
from edl.kube.fields import Index
from edl.kube.informer import Informer
from edl.kube.objects import Key
from edl.operator.resources import RawJob

BY_JOB = "job"


def named_job(spec: Any) -> str:
    """The job that a plan names, empty if it cannot be made out."""
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    name = selector.get("name") if isinstance(selector, Mapping) else None
    return name if isinstance(name, str) else ""


by_job = Index("spec", lambda spec: (named_job(spec),) if named_job(spec) else ())


def job_key(old: RawJob | None, new: RawJob | None) -> set[Key]:
    """Whom a change of a plan concerns."""
    items = (item for item in (old, new) if item is not None)
    return {(item.metadata.namespace, named_job(item.spec)) for item in items if named_job(item.spec)}


class PlanEntry(msgspec.Struct, frozen=True):
    """`plan` is None if the spec is refused."""

    raw: RawJob
    plan: JobResource | None
    problems: tuple[Problem, ...]

    @property
    def refused(self) -> tuple[Problem, ...]:
        return tuple(errors(self.problems))

    @property
    def status(self) -> JobResourceStatus:
        if self.plan is not None:
            return self.plan.status
        try:
            return msgspec.convert(self.raw.status or {}, JobResourceStatus)
        except msgspec.ValidationError:
            return JobResourceStatus()


class PlanBook:
    def __init__(self, plans: Informer[RawJob]) -> None:
        self._plans = plans
        self._entries: dict[Key, PlanEntry] = {}

    def entry(self, key: Key) -> PlanEntry | None:
        raw = self._plans.get(key)
        if raw is None:
            self._entries.pop(key, None)
            return None
        known = self._entries.get(key)
        if known is None or known.raw is not raw:
            known = self._entries[key] = _read(raw)
        return known

    def of(self, namespace: str, job: str) -> tuple[JobResource, ...]:
        """The valid ones that name a job."""
        found = (item for item in self._plans.by(BY_JOB, job) if item.metadata.namespace == namespace)
        return self._valid(found)

    def all(self) -> tuple[JobResource, ...]:
        return self._valid(self._plans.all())

    def _valid(self, found: Any) -> tuple[JobResource, ...]:
        entries = (self.entry((raw.metadata.namespace, raw.metadata.name)) for raw in found)
        return tuple(entry.plan for entry in entries if entry is not None and entry.plan is not None)


def _read(raw: RawJob) -> PlanEntry:
    whole = {
        "apiVersion": raw.api_version,
        "kind": raw.kind,
        "metadata": msgspec.to_builtins(raw.metadata),
        "spec": raw.spec,
        "status": raw.status,
    }
    checked = check({name: value for name, value in whole.items() if value is not None})
    plan = checked.object if isinstance(checked.object, JobResource) else None
    return PlanEntry(raw, plan, checked.problems)
