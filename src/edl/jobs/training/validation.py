"""Checks of a TrainingJob beyond its types."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edl.api import annotations
from edl.api.job_view import Installation
from edl.api.kubernetes import duration
from edl.api.kubernetes.container_checks import mount_path_problem, mount_problems
from edl.api.kubernetes.meta import EMPTY
from edl.api.kubernetes.pod_checks import (
    Amounts,
    image_problem,
    label_problems,
    lacks_cpu,
    resource_problems,
    template_problems,
)
from edl.api.schema.problem import Path, Problem, warning
from edl.api.schema.spec import Resources
from edl.jobs.core.validation import GPU_WITHOUT_CPU, size_problems, unused_annotations
from edl.jobs.training.roles import DATA_VOLUME
from edl.jobs.training.types import Etcd, Master, Pserver, Trainer, TrainingJob, TrainingJobSpec


def problems(written: TrainingJob, job: TrainingJob) -> Iterator[Problem]:
    """`job` is the same one with its defaults."""
    yield from _pserver_default(written.spec)
    yield from unused_annotations(job.metadata)
    spec = job.spec
    roles: tuple[tuple[str, Master | Pserver | Trainer | Etcd | None], ...] = (
        ("master", spec.master),
        ("pserver", spec.pserver),
        ("trainer", spec.trainer),
        ("etcd", spec.etcd),
    )
    for name, role in roles:
        if role is not None:
            yield from _role(role.resources, role.template, name, ("spec", name))
    yield from _field_problems(job)
    yield from _warnings(job)
    yield from size_problems(job.metadata, spec.trainer.min_instance, spec.trainer.max_instance)


def _role(resources: Resources | None, template: Mapping[str, Any] | None, name: str, at: Path) -> Iterator[Problem]:
    requests, limits = _amounts(resources)
    yield from resource_problems(requests, limits, (*at, "resources"))
    if lacks_cpu(requests, limits):
        yield warning((*at, "resources"), GPU_WITHOUT_CPU)
    if template is not None:
        yield from template_problems(template, (*at, "template"), role=name)


def _amounts(resources: Resources | None) -> tuple[Amounts, Amounts]:
    return (EMPTY, EMPTY) if resources is None else (resources.requests or EMPTY, resources.limits or EMPTY)


def _field_problems(job: TrainingJob) -> Iterator[Problem]:
    spec = job.spec
    if not spec.trainer.entrypoint.strip():
        yield Problem(("spec", "trainer", "entrypoint"), "is blank: the command line of a trainer")
    if spec.mount_path is not None and (problem := mount_path_problem(spec.mount_path)):
        yield Problem(("spec", "mountPath"), problem)
    if spec.image and (problem := image_problem(spec.image)):
        yield Problem(("spec", "image"), problem)
    if spec.freezing_window is not None and (problem := duration.problem(spec.freezing_window)):
        yield Problem(("spec", "freezing_window"), problem)
    if spec.priority is not None:
        yield from _priority(spec.priority)
    last = (spec.port or 0) + (spec.ports_num or 0) + (spec.ports_num_for_sparse or 0) - 1
    if last > 65535:
        yield Problem(
            ("spec", "port"), f"the last of its ports would be {last}, more than 65535; lower port or ports_num"
        )
    yield from label_problems(spec.node_selector or EMPTY, ("spec", "NodeSelector"))
    yield from _named("volumes", spec.volumes, ("name",))
    yield from _named("VolumeMounts", spec.volume_mounts, ("name", "mountPath"))
    yield from mount_problems(spec.volume_mounts, ("spec", "VolumeMounts"))
    yield from _named("imagePullSecrets", spec.image_pull_secrets, ("name",))


def _pserver_default(spec: TrainingJobSpec) -> Iterator[Problem]:
    """The one pair that the rules cannot see: min-instance omitted, which is as many as trainers at least."""
    trainers = spec.trainer.min_instance
    most = spec.pserver.max_instance if spec.pserver and spec.pserver.min_instance is None else None
    if most is not None and most < trainers:
        yield Problem(
            ("spec", "pserver", "max-instance"),
            f"{most} is less than min-instance, which is omitted and so that of the trainers, {trainers}; "
            "give spec.pserver.min-instance",
        )


def _priority(value: str | int) -> Iterator[Problem]:
    try:
        annotations.priority(value)
    except ValueError as error:
        yield Problem(("spec", "priority"), str(error))


def _named(field: str, items: Iterable[Mapping[str, Any]] | None, wanted: tuple[str, ...]) -> Iterator[Problem]:
    for index, item in enumerate(items or ()):
        for name in wanted:
            if not isinstance(item.get(name), str) or not item[name]:
                yield Problem(("spec", field, index, name), "is required")


def _warnings(job: TrainingJob) -> Iterator[Problem]:
    spec = job.spec
    trainer, pserver = spec.trainer, spec.pserver
    elastic = trainer.min_instance < (trainer.max_instance or 0)
    if elastic and spec.master is None:
        yield warning(
            ("spec", "master"),
            f"without a master the job stays at {trainer.replicas} trainers and is never scaled; add `master: {{}}`",
        )
    elif elastic and not spec.fault_tolerant:
        yield warning(
            ("spec", "trainer", "max-instance"),
            f"the job is scaled from {trainer.min_instance} to {trainer.max_instance}, but with fault_tolerant: false "
            "one trainer that fails by itself fails the job; set fault_tolerant: true, or max-instance to min-instance",
        )
    if pserver and not elastic and (pserver.min_instance or 0) < (pserver.max_instance or 0):
        yield warning(
            ("spec", "pserver", "max-instance"),
            "parameter servers are scaled with the trainers, whose number is fixed; raise spec.trainer.max-instance",
        )
    if spec.mount_path and not _outlives_pods(spec):
        yield warning(
            ("spec", "mountPath"),
            "shows a directory that goes with its pod, except on one machine (`edl up`); name one that lasts, such "
            'as volumes: [{"name": "data", "persistentVolumeClaim": {"claimName": ...}}]',
        )
    if spec.etcd and not (spec.etcd.image or spec.etcd.template):
        yield warning(
            ("spec", "etcd", "image"),
            f"none is named: {Installation().etcd_image} is taken, which the cluster must be able to pull; name one",
        )


def _outlives_pods(spec: TrainingJobSpec) -> bool:
    """Whether every role that holds state shows a volume named data that is not the pod's own."""
    roles = (spec.trainer, spec.pserver, spec.master, spec.etcd)
    templates = [role.template for role in roles if role is not None and role.template is not None]
    pods = [pod for template in templates if isinstance(pod := template.get("spec"), Mapping)]
    found = [*(spec.volumes or ()), *(volume for pod in pods for volume in _listed(pod.get("volumes")))]
    named = [volume for volume in found if isinstance(volume, Mapping) and volume.get("name") == DATA_VOLUME]
    return any(not {"emptyDir", "ephemeral"} & set(volume) for volume in named)


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else ()
