"""Checks of a JobResource beyond its types."""

from collections.abc import Iterator

from edl.api.kubernetes import names
from edl.api.schema.problem import Path, Problem, warning
from edl.jobs.core.validation import GPU_WITHOUT_CPU, unused_annotations
from edl.jobs.easydl.job_resource import JobResource, PodResource, quantities


def problems(written: JobResource, plan: JobResource) -> Iterator[Problem]:
    """It has no defaults: both are the same."""
    yield from unused_annotations(plan.metadata)
    spec = plan.spec
    if problem := names.job_name_problem(spec.selector.name):
        yield Problem(("spec", "selector", "name"), problem)
    for name, role in (
        ("parameter_server", spec.parameter_server),
        ("worker", spec.worker),
        ("evaluator", spec.evaluator),
    ):
        if role is not None:
            yield from _pod_resource(role.resource, ("spec", name, "resource"))
    yield from _updates(plan)


def _updates(plan: JobResource) -> Iterator[Problem]:
    job = "" if names.job_name_problem(plan.spec.selector.name) else plan.spec.selector.name
    seen: set[str] = set()
    for index, update in enumerate(plan.spec.resource_updation or ()):
        at = ("spec", "resource_updation", index)
        yield from _pod_resource(update.resource, (*at, "resource"))
        if update.resource == PodResource():
            yield Problem((*at, "resource"), "names no resource; give cpu, memory, disk or gpu")
        if problem := names.dns_label_problem(update.name):
            yield Problem((*at, "name"), problem)
        elif job and not update.name.startswith(f"{job}-"):
            yield Problem((*at, "name"), f'"{update.name}" is no pod of {job}, whose names begin with {job}-')
        if update.name in seen:
            yield Problem((*at, "name"), f'"{update.name[:63]}" is named twice; put its resources into one entry')
        seen.add(update.name)


def _pod_resource(resource: PodResource | None, at: Path) -> Iterator[Problem]:
    for name, found in quantities(resource).items():
        if isinstance(found, ValueError):
            yield Problem((*at, name), str(found))
    if resource is not None and resource.gpu and resource.cpu is None:
        yield warning(at, GPU_WITHOUT_CPU)
