"""JobResource (elastic.easydl.org): how many pods an EasyDL ElasticJob may have, and how large."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from edl.api.kubernetes import quantity
from edl.api.kubernetes.meta import ObjectMeta
from edl.api.kubernetes.names import JOB_NAME_GRAMMAR
from edl.api.schema.spec import InstancesOrNone, QuantityValue, Rule, Spec, Status, Text, Unchanging
from edl.api.status import JobCondition

GROUP = "elastic.easydl.org"
API_VERSIONS = (f"{GROUP}/v1alpha1",)
KIND = "JobResource"

_RESOURCE = "Resources of one pod. What is omitted is as in the job's template."


class PodResource(Spec, frozen=True, kw_only=True):
    """Resources of one pod: plain numbers in the units given, or Kubernetes quantities."""

    cpu: Annotated[QuantityValue | None, Meta(description="Cores, e.g. 4 or 500m.")] = None
    memory: Annotated[QuantityValue | None, Meta(description="MiB, e.g. 4096, or a quantity such as 4Gi.")] = None
    disk: Annotated[QuantityValue | None, Meta(description="MiB of local disk, e.g. 8192, or a quantity: 8Gi.")] = None
    gpu: Annotated[InstancesOrNone | None, Meta(description="Whole devices, e.g. 1.")] = None


class Selector(Spec, frozen=True, kw_only=True):
    """The job that this is about."""

    RULES: ClassVar[tuple[Rule, ...]] = (Unchanging("name", "make another JobResource for another job"),)

    name: Annotated[
        Text,
        Meta(description="Name of the ElasticJob, in the same namespace.", extra={"grammar": JOB_NAME_GRAMMAR}),
    ]


class RoleResource(Spec, frozen=True, kw_only=True):
    """How many pods of a role, and how large."""

    replicas: Annotated[InstancesOrNone, Meta(description="Number of pods. Workers: the most to be granted.")]
    resource: Annotated[PodResource | None, Meta(description=_RESOURCE)] = None


class ResourceUpdate(Spec, frozen=True, kw_only=True):
    """New resources for one pod, which is replaced."""

    name: Annotated[Text, Meta(description="The pod to replace, e.g. myjob-ps-0.")]
    resource: Annotated[PodResource, Meta(description="Its new resources. What is omitted is kept.")]


class JobResourceSpec(Spec, frozen=True, kw_only=True):
    """A plan for one job. Roles that are not named are left alone."""

    selector: Annotated[Selector, Meta(description="The job that this is about.")]
    parameter_server: Annotated[RoleResource | None, Meta(description="The parameter servers.")] = None
    worker: Annotated[RoleResource | None, Meta(description="The workers, granted from 1 to replicas.")] = None
    evaluator: Annotated[RoleResource | None, Meta(description="The evaluators.")] = None
    resource_updation: Annotated[
        tuple[ResourceUpdate, ...] | None,
        Meta(description="Pods to replace by ones with other resources.", extra={"key": "name"}),
    ] = None


class SlotUpdate(Status, frozen=True, kw_only=True):
    """How far one entry of resource_updation has come."""

    name: Annotated[str, Meta(description="The slot that is updated.")]
    state: Annotated[
        str,
        Meta(
            description="pending: not begun, or asked of the node; replacing: a new pod starts beside the old one; "
            "done: the new pod has its place; resized: the running pod was resized in place; refused: it cannot be."
        ),
    ] = ""
    asked: Annotated[str, Meta(description="The resources that this is about.")] = ""
    pod: Annotated[str, Meta(description="The pod that has or takes the slot.")] = ""
    reason: Annotated[str, Meta(description="Why it is in this state, in words.")] = ""


class JobResourceStatus(Status, frozen=True, kw_only=True):
    """What was made of the plan."""

    granted: Annotated[dict[str, int] | None, Meta(description="Pods granted, by role.")] = None
    code: Annotated[str, Meta(description="Stable code of the reason.")] = ""
    reason: Annotated[str, Meta(description="Why no more was granted, or the plan is refused.")] = ""
    updates: Annotated[
        tuple[SlotUpdate, ...], Meta(description="How far resource_updation has come.", extra={"key": "name"})
    ] = ()
    conditions: Annotated[
        tuple[JobCondition, ...], Meta(description="The plan's conditions.", extra={"key": "type"})
    ] = ()
    observed_generation: Annotated[
        int | None, Meta(description="The generation of the spec that this status describes.")
    ] = msgspec.field(default=None, name="observedGeneration")


class JobResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, kw_only=True):
    """Sizes and resources for one EasyDL ElasticJob."""

    api_version: str = msgspec.field(default=API_VERSIONS[0], name="apiVersion")
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: JobResourceSpec
    status: JobResourceStatus = JobResourceStatus()


_MIB = 2**20


def quantities(resource: PodResource | None) -> dict[str, int | ValueError]:
    """What a resource asks for, by field, in nanos; a ValueError in place of a value that is none."""
    if resource is None:
        return {}
    found: dict[str, int | ValueError] = {}
    for field in ("cpu", "memory", "disk", "gpu"):
        value = getattr(resource, field)
        if value is not None:
            try:
                found[field] = _nanos(field, value)
            except ValueError as error:
                found[field] = error
    return found


def _nanos(field: str, value: quantity.Quantity) -> int:
    mebibytes = field in ("memory", "disk")
    if mebibytes and isinstance(value, str) and value.strip().isdecimal():
        raise ValueError(f'"{value[:40]}" has no unit: write {value[:20]} for MiB, or {value[:20]}Mi')
    if problem := quantity.problem(value):
        raise ValueError(problem)
    nanos = quantity.nano(value)
    return nanos * _MIB if mebibytes and not isinstance(value, str) else nanos


def container_resources(resource: PodResource | None, gpu: str) -> dict[str, str]:
    """The same as Kubernetes names and writes it; `gpu` is the name under which the cluster counts its devices."""
    names = {"cpu": "cpu", "memory": "memory", "disk": "ephemeral-storage", "gpu": gpu}
    return {
        names[field]: quantity.text(nanos, binary=field in ("memory", "disk"))
        for field, nanos in quantities(resource).items()
        if not isinstance(nanos, ValueError)
    }
