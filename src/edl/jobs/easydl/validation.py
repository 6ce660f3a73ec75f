"""Checks of an EasyDL ElasticJob beyond its types."""

from collections.abc import Iterator, Mapping
from typing import Any

from edl.api.kubernetes.pod_checks import template_problems
from edl.api.schema.problem import Problem, warning
from edl.jobs.core.validation import template_warnings, unused_annotations
from edl.jobs.easydl.types import RING_ALLREDUCE, ElasticJob


def problems(written: ElasticJob, job: ElasticJob) -> Iterator[Problem]:
    """`job` is the same one with its defaults."""
    yield from unused_annotations(job.metadata)
    spec = job.spec
    roles = (
        ("parameterServer", spec.parameter_server),
        ("worker", spec.worker),
        ("evaluator", spec.evaluator),
        ("trainer", spec.trainer),
    )
    for name, role in roles:
        if role is not None and role.template is not None:
            yield from template_problems(role.template, ("spec", name, "template"), own_image=True)
            yield from template_warnings(role.template, ("spec", name, "template"))
    if spec.distribution_strategy == RING_ALLREDUCE and _names_horovod(spec.worker.template):
        yield warning(
            ("spec", "worker", "template"),
            "names Horovod: EDL sets its variables (HOROVOD_*) and serves no elastic driver; bring your own in "
            "spec.trainer, or use torchrun, for which EDL serves the rendezvous",
        )
    if spec.distribution_strategy == RING_ALLREDUCE and spec.parameter_server is not None:
        yield warning(("spec", "parameterServer"), "is ignored with distributionStrategy ring-allreduce")


def _names_horovod(template: Mapping[str, Any]) -> bool:
    """Whether its container runs Horovod, as far as its command shows."""
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    first = containers[0] if isinstance(containers, list | tuple) and containers else None
    words = [*(first.get("command") or ()), *(first.get("args") or ())] if isinstance(first, dict) else []
    return any("horovod" in word.lower() for word in words if isinstance(word, str))
