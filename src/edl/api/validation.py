"""The third step: what no type can say. Takes an object, defaulted or not, and never raises.

Rules between fields are held against what the user wrote, so that no complaint is about a default.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from edl.api import annotations, duration, easydl_job, names, pytorch_job
from edl.api.defaults import default
from edl.api.job_resource import JobResource, PodResource, quantities
from edl.api.kinds import EdlObject
from edl.api.meta import EMPTY, ObjectMeta
from edl.api.pod_checks import (
    Amounts,
    image_problem,
    label_problems,
    lacks_cpu,
    resource_problems,
    template_problems,
)
from edl.api.problem import Path, Problem, first, warning
from edl.api.roles import Installation
from edl.api.rules import rule_problems
from edl.api.spec import Resources
from edl.api.training_job import Etcd, Master, Pserver, Trainer, TrainingJob, TrainingJobSpec

_SPEC: Path = ("spec",)
_GPU_WITHOUT_CPU = "asks for GPUs and no cpu; training stalls when launching kernels and copying waits for CPU: add cpu"


def validate(job: EdlObject) -> tuple[Problem, ...]:
    """Errors and warnings, the first hundred."""
    return first(_problems(job))


def _problems(job: EdlObject) -> Iterator[Problem]:
    resource = isinstance(job, JobResource)
    yield from _metadata(job.metadata, names.dns_subdomain_problem if resource else names.job_name_problem)
    yield from rule_problems(job.spec, _SPEC)
    if isinstance(job, TrainingJob):
        yield from _pserver_default(job.spec)
    if annotations.STALL_TIMEOUT in job.metadata.annotations and not isinstance(job, pytorch_job.ElasticJob):
        where = ("metadata", "annotations", annotations.STALL_TIMEOUT)
        yield warning(where, "is not used: only workers of a PyTorch ElasticJob are judged by their silence")
    yield from _of_kind(default(job))


def _of_kind(job: EdlObject) -> Iterator[Problem]:
    if isinstance(job, TrainingJob):
        return _training_job(job)
    if isinstance(job, pytorch_job.ElasticJob):
        return _pytorch_job(job)
    return _job_resource(job) if isinstance(job, JobResource) else _easydl_job(job)


def _metadata(metadata: ObjectMeta, name_problem: Callable[[str], str | None]) -> Iterator[Problem]:
    if metadata.name and (problem := name_problem(metadata.name)):
        yield Problem(("metadata", "name"), problem)
    if metadata.namespace and (problem := names.dns_label_problem(metadata.namespace)):
        yield Problem(("metadata", "namespace"), problem)
    yield from label_problems(metadata.labels, ("metadata", "labels"))
    where = ("metadata", "annotations")
    for name in metadata.annotations:
        if problem := names.label_key_problem(name):
            yield Problem((*where, name), problem)
    yield from annotations.problems(metadata.annotations, where)


def _training_job(job: TrainingJob) -> Iterator[Problem]:
    spec = job.spec
    roles: tuple[tuple[str, Master | Pserver | Trainer | Etcd | None], ...] = (
        ("master", spec.master),
        ("pserver", spec.pserver),
        ("trainer", spec.trainer),
        ("etcd", spec.etcd),
    )
    for name, role in roles:
        if role is not None:
            yield from _role(role.resources, role.template, name, (*_SPEC, name))
    yield from _training_fields(job)
    yield from _training_warnings(job)
    yield from _sizes(job.metadata, spec.trainer.min_instance, spec.trainer.max_instance)


def _role(resources: Resources | None, template: Mapping[str, Any] | None, name: str, at: Path) -> Iterator[Problem]:
    requests, limits = _amounts(resources)
    yield from resource_problems(requests, limits, (*at, "resources"))
    if lacks_cpu(requests, limits):
        yield warning((*at, "resources"), _GPU_WITHOUT_CPU)
    if template is not None:
        yield from template_problems(template, (*at, "template"), role=name)


def _amounts(resources: Resources | None) -> tuple[Amounts, Amounts]:
    return (EMPTY, EMPTY) if resources is None else (resources.requests or EMPTY, resources.limits or EMPTY)


def _training_fields(job: TrainingJob) -> Iterator[Problem]:
    spec = job.spec
    if not spec.trainer.entrypoint.strip():
        yield Problem(("spec", "trainer", "entrypoint"), "is blank: the command line of a trainer")
    if spec.mount_path is not None and not spec.mount_path.startswith("/"):
        yield Problem(("spec", "mountPath"), f'"{spec.mount_path[:60]}" is not absolute; begin it with /')
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


def _training_warnings(job: TrainingJob) -> Iterator[Problem]:
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
    if spec.etcd and not (spec.etcd.image or spec.etcd.template):
        yield warning(
            ("spec", "etcd", "image"),
            f"none is named: {Installation().etcd_image} is taken, which the cluster must be able to pull; name one",
        )


def _sizes(metadata: ObjectMeta, least: int | None, most: int | None) -> Iterator[Problem]:
    text = metadata.annotations.get(annotations.SIZES)
    if text is None or least is None or most is None:
        return
    try:
        allowed = annotations.sizes(text)
    except ValueError:
        return  # said by the check of the annotations
    if not any(least <= size <= most for size in allowed):
        yield Problem(("metadata", "annotations", annotations.SIZES), f"no size of {text} is within {least} to {most}")


def _pytorch_job(job: pytorch_job.ElasticJob) -> Iterator[Problem]:
    spec = job.spec
    yield from _run_policies(spec)
    yield from _scheduling_policy(spec)
    if spec.replica_specs.worker.restart_policy == "Always":
        yield warning(
            ("spec", "replicaSpecs", "Worker", "restartPolicy"),
            "Always starts workers again that finished well: the job never succeeds by itself; OnFailure does",
        )
    at = ("spec", "replicaSpecs", "Worker", "template")
    template = spec.replica_specs.worker.template
    yield from template_problems(template, at)
    yield from _template_warnings(template, at)
    yield from _sizes(job.metadata, spec.min_replicas, spec.max_replicas)
    if spec.rdzv_endpoint is not None and (problem := _endpoint_problem(spec.rdzv_endpoint)):
        yield Problem(("spec", "rdzvEndpoint"), problem)


def _run_policies(spec: pytorch_job.ElasticJobSpec) -> Iterator[Problem]:
    """Said in two places is fine, if both say the same. `spec` is defaulted: it holds what counts."""
    for place, policy in (("runPolicy", spec.run_policy), ("RunPolicy", spec.first_run_policy)):
        for attribute, name in zip(pytorch_job.RUN_POLICY, pytorch_job.RunPolicy.__struct_encode_fields__, strict=True):
            said, counts = getattr(policy, attribute, None), getattr(spec, attribute)
            if said is not None and said != counts:
                yield Problem(("spec", place, name), f"is not what another place says ({counts}); remove one of them")


def _scheduling_policy(spec: pytorch_job.ElasticJobSpec) -> Iterator[Problem]:
    policy = spec.scheduling_policy
    if policy is None:
        return
    at = ("spec", "schedulingPolicy")
    if policy.min_available not in (None, spec.min_replicas):
        yield warning(
            (*at, "minAvailable"),
            f"{policy.min_available} is not used: minReplicas, {spec.min_replicas}, workers start together",
        )
    for name, value in (("queue", policy.queue), ("minResources", policy.min_resources)):
        if value is not None:
            yield warning((*at, name), "is not used: EDL has one queue, and the template says what pods need")


def _endpoint_problem(endpoint: str) -> str | None:
    host, colon, port = endpoint.rpartition(":")
    if any(character.isspace() for character in endpoint) or not (host if colon else endpoint):
        return f'"{endpoint[:60]}": wants host:port'
    if colon and not endpoint.endswith("]") and not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536):
        return f'"{endpoint[:60]}": the port must be 1 to 65535'
    return None


def _template_warnings(template: Mapping[str, Any], at: Path) -> Iterator[Problem]:
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
                yield warning((*at, "spec", "containers", index, "resources"), _GPU_WITHOUT_CPU)


def _easydl_job(job: easydl_job.ElasticJob) -> Iterator[Problem]:
    spec = job.spec
    roles = (
        ("parameterServer", spec.parameter_server),
        ("worker", spec.worker),
        ("evaluator", spec.evaluator),
        ("trainer", spec.trainer),
    )
    for name, role in roles:
        if role is not None and role.template is not None:
            yield from template_problems(role.template, ("spec", name, "template"))
            yield from _template_warnings(role.template, ("spec", name, "template"))
    if spec.distribution_strategy == easydl_job.RING_ALLREDUCE and spec.parameter_server is not None:
        yield warning(("spec", "parameterServer"), "is ignored with distributionStrategy ring-allreduce")


def _job_resource(plan: JobResource) -> Iterator[Problem]:
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
        yield warning(at, _GPU_WITHOUT_CPU)
