"""ElasticJob (elastic.pytorch.org): equal workers under torchrun. Names on the wire are those of design 004."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from edl.api.kubernetes.meta import ObjectMeta
from edl.api.schema.spec import (
    AnyOf,
    Count,
    Instances,
    NotMore,
    QuantityValue,
    Rule,
    Seconds,
    Spec,
    Template,
    Text,
    Unchanging,
)
from edl.api.status import ElasticStatus

GROUP = "elastic.pytorch.org"
API_VERSIONS = (f"{GROUP}/v1alpha1",)
KIND = "ElasticJob"
PLURAL = "elasticjobs"
SHORT_NAME = "ptej"

_REPLICAS = "replicaSpecs.Worker.replicas"


class WorkerSpec(Spec, frozen=True, kw_only=True):
    """The workers, whose number is the size of the job."""

    template: Annotated[Template, Meta(description="Pod template of a worker: a container and its image at least.")]
    replicas: Annotated[
        Instances | None,
        Meta(description="Workers to start with; `kubectl scale` sets it. Omitted: minReplicas."),
    ] = None
    restart_policy: Annotated[
        Literal["Always", "OnFailure", "Never", "ExitCode"] | None,
        Meta(
            description="Which workers are replaced when they fail. ExitCode: those that exit with 128 to 255. "
            "Omitted: OnFailure."
        ),
    ] = msgspec.field(default=None, name="restartPolicy")


class ReplicaSpecs(Spec, frozen=True, kw_only=True):
    """The pods of the job, by role; the one role is Worker."""

    worker: Annotated[WorkerSpec, Meta(description="The workers, whose number is the size of the job.")] = (
        msgspec.field(name="Worker")
    )


class SchedulingPolicy(Spec, frozen=True, kw_only=True, rename="camel"):
    """How the pods are scheduled, as batch schedulers are told. EDL's own admits minReplicas workers together."""

    min_available: Annotated[
        Count | None, Meta(description="Workers that start together. Omitted, and always in effect: minReplicas.")
    ] = None
    priority_class: Annotated[
        Text | None, Meta(description="PriorityClass of the workers, unless their template names one.")
    ] = None
    schedule_timeout_seconds: Annotated[
        Seconds | None, Meta(description="The same as startTimeoutSeconds, which counts if both are given.")
    ] = None
    queue: Annotated[Text | None, Meta(description="Accepted and not used: EDL has one queue.")] = None
    min_resources: Annotated[
        dict[str, QuantityValue] | None, Meta(description="Accepted and not used: the template says what pods need.")
    ] = None


class RunPolicy(Spec, frozen=True, kw_only=True, rename="camel"):
    """How the job ends, in the place where PyTorchJob has it. Each field means the same as beside minReplicas."""

    clean_pod_policy: Annotated[
        Literal["None", "Running", "All"] | None, Meta(description="As spec.cleanPodPolicy.")
    ] = None
    backoff_limit: Annotated[Count | None, Meta(description="As spec.backoffLimit.")] = None
    active_deadline_seconds: Annotated[Seconds | None, Meta(description="As spec.activeDeadlineSeconds.")] = None
    ttl_seconds_after_finished: Annotated[Seconds | None, Meta(description="As spec.ttlSecondsAfterFinished.")] = None
    scheduling_policy: Annotated[SchedulingPolicy | None, Meta(description="As spec.schedulingPolicy.")] = None
    suspend: Annotated[bool | None, Meta(description="As spec.suspend.")] = None


RUN_POLICY = tuple(RunPolicy.__struct_fields__)
"""Fields that may stand in spec itself, in spec.runPolicy and in spec.RunPolicy."""


class ElasticJobSpec(Spec, frozen=True, kw_only=True, rename="camel"):
    """What to run, and between which sizes."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        NotMore("minReplicas", "maxReplicas"),
        NotMore("minReplicas", _REPLICAS),
        NotMore(_REPLICAS, "maxReplicas"),
        AnyOf(("minReplicas", _REPLICAS)),
        Unchanging("rdzvEndpoint", "the job's workers meet there; delete the job and create it anew"),
    )

    replica_specs: Annotated[ReplicaSpecs, Meta(description="The pods of the job, by role; the one role is Worker.")]
    min_replicas: Annotated[
        Instances | None, Meta(description="The fewest workers that the job runs with. Omitted: replicas.")
    ] = None
    max_replicas: Annotated[
        Instances | None, Meta(description="The most workers that the job grows to. Omitted: replicas.")
    ] = None
    rdzv_endpoint: Annotated[
        Text | None, Meta(description="host:port of a rendezvous service. Omitted: EDL serves the rendezvous.")
    ] = None
    clean_pod_policy: Annotated[
        Literal["None", "Running", "All"] | None,
        Meta(description="Pods that are deleted when the job ends. Omitted: None, they stay for their logs."),
    ] = None
    backoff_limit: Annotated[
        Count | None,
        Meta(
            description="How often in a row one worker may be replaced after a failure; one more fails the job. "
            "Omitted: after 6 failures the worker is given up, which fails the job if fewer than minReplicas are left."
        ),
    ] = None
    active_deadline_seconds: Annotated[
        Seconds | None, Meta(description="The job fails when it has been active this long. Omitted: no limit.")
    ] = None
    start_timeout_seconds: Annotated[
        Seconds | None, Meta(description="The job fails when it waits for its minimum this long. Omitted: no limit.")
    ] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, Meta(description="The job is deleted this long after its end. Omitted: never.")
    ] = None
    suspend: Annotated[bool | None, Meta(description="true: the job gives up its pods and keeps its place.")] = None
    scheduling_policy: Annotated[
        SchedulingPolicy | None, Meta(description="How the pods are scheduled, as batch schedulers are told.")
    ] = None
    run_policy: Annotated[
        RunPolicy | None, Meta(description="How the job ends, in the place where PyTorchJob has it.")
    ] = None
    first_run_policy: Annotated[
        RunPolicy | None, Meta(description="The same, as the first controller of this kind spelled it.")
    ] = msgspec.field(default=None, name="RunPolicy")


class ElasticJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, kw_only=True):
    """An elastic PyTorch job: equal workers that regroup when their number changes."""

    api_version: str = msgspec.field(default=API_VERSIONS[0], name="apiVersion")
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticJobSpec
    status: ElasticStatus = ElasticStatus()

    @property
    def least(self) -> int:
        """The size that it must not fall below: a larger minimum counts once it was reached."""
        wanted, scale = self.spec.min_replicas or 1, self.status.scale
        return wanted if scale is None or scale.minimum is None else min(wanted, scale.minimum)
