"""Checks that all kinds share: what no type can say. They take an object, defaulted or not, and never raise.

Rules between fields are held against what the user wrote, so that no complaint is about a default. What a single kind
asks for is in that kind's `validation` module.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from edl.api import annotations
from edl.api.kubernetes import names
from edl.api.kubernetes.meta import EMPTY, ObjectMeta
from edl.api.kubernetes.pod_checks import label_problems, lacks_cpu
from edl.api.schema.problem import Path, Problem, warning

GPU_WITHOUT_CPU = "asks for GPUs and no cpu; training stalls when launching kernels and copying waits for CPU: add cpu"


def metadata_problems(metadata: ObjectMeta, *, names_pods: bool) -> Iterator[Problem]:
    """`names_pods`: names of pods begin with the object's."""
    name_problem = names.job_name_problem if names_pods else names.dns_subdomain_problem
    if metadata.name and (problem := name_problem(metadata.name)):
        yield Problem(("metadata", "name"), problem)
    if metadata.namespace and (problem := names.dns_label_problem(metadata.namespace)):
        yield Problem(("metadata", "namespace"), problem)
    yield from label_problems(metadata.labels, ("metadata", "labels"))
    at = ("metadata", "annotations")
    for name in metadata.annotations:
        if problem := names.label_key_problem(name):
            yield Problem((*at, name), problem)
    yield from annotations.problems(metadata.annotations, at)


def unused_annotations(metadata: ObjectMeta) -> Iterator[Problem]:
    """Of a kind that is no PyTorch ElasticJob."""
    if annotations.STALL_TIMEOUT in metadata.annotations:
        at = ("metadata", "annotations", annotations.STALL_TIMEOUT)
        yield warning(at, "is not used: only workers of a PyTorch ElasticJob are judged by their silence")
    if annotations.FAIL_FAST in metadata.annotations:
        at = ("metadata", "annotations", annotations.FAIL_FAST)
        yield warning(at, "is not used: only a PyTorch ElasticJob ends before its retries are used up")


def size_problems(metadata: ObjectMeta, least: int | None, most: int | None) -> Iterator[Problem]:
    text = metadata.annotations.get(annotations.SIZES)
    if text is None or least is None or most is None:
        return
    try:
        allowed = annotations.sizes(text)
    except ValueError:
        return  # said by the check of the annotations
    if not any(least <= size <= most for size in allowed):
        yield Problem(("metadata", "annotations", annotations.SIZES), f"no size of {text} is within {least} to {most}")


def template_warnings(template: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return
    if spec.get("restartPolicy"):
        yield warning((*at, "spec", "restartPolicy"), "is ignored: EDL replaces pods itself")
    containers = spec.get("containers")
    for index, container in enumerate(containers if isinstance(containers, list | tuple) else ()):
        resources = container.get("resources") if isinstance(container, dict) else None
        if isinstance(resources, dict):
            requests, limits = (resources.get(part) or EMPTY for part in ("requests", "limits"))
            if isinstance(requests, Mapping) and isinstance(limits, Mapping) and lacks_cpu(requests, limits):
                yield warning((*at, "spec", "containers", index, "resources"), GPU_WITHOUT_CPU)
