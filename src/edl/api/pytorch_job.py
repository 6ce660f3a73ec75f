"""ElasticJob (elastic.pytorch.org): equal workers under torchrun. Names on the wire are the seed's."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from edl.api.meta import ObjectMeta
from edl.api.spec import AnyOf, Count, Instances, NotMore, Rule, Seconds, Spec, Template, Text
from edl.api.status import ElasticStatus

GROUP = "elastic.pytorch.org"
API_VERSIONS = (f"{GROUP}/v1alpha1",)
KIND = "ElasticJob"

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


class ElasticJobSpec(Spec, frozen=True, kw_only=True, rename="camel"):
    """What to run, and between which sizes."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        NotMore("minReplicas", "maxReplicas"),
        NotMore("minReplicas", _REPLICAS),
        NotMore(_REPLICAS, "maxReplicas"),
        AnyOf(("minReplicas", _REPLICAS)),
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
        Count | None, Meta(description="How often one worker may fail before the job does. Omitted: no limit.")
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


class ElasticJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, kw_only=True):
    """An elastic PyTorch job: equal workers that regroup when their number changes."""

    api_version: str = msgspec.field(default=API_VERSIONS[0], name="apiVersion")
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticJobSpec
    status: ElasticStatus = ElasticStatus()
