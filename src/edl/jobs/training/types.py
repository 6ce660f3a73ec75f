"""TrainingJob (paddlepaddle.org): one master, parameter servers, elastic trainers. On the wire as in designs 000 to
002.
"""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from edl.api.kubernetes.meta import ObjectMeta
from edl.api.schema.spec import (
    MAX_INT32,
    Anything,
    Count,
    Instances,
    InstancesOrNone,
    NotMore,
    Priority,
    Resources,
    Rule,
    Seconds,
    Spec,
    Status,
    Template,
    Text,
    Unchanging,
)
from edl.api.status import (
    EndedPod,
    ExitCode,
    JobCondition,
    JobProgress,
    LastScaleTime,
    PodSeconds,
    ReplicaCounts,
    RescaleSeconds,
    RolesInForce,
    RootCause,
    Scale,
    SlotMemory,
)

GROUP = "paddlepaddle.org"
API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1alpha1")
KIND = "TrainingJob"
PLURAL = "trainingjobs"
SHORT_NAME = "tj"

Port = Annotated[int, Meta(ge=1, le=65535)]
Passes = Annotated[int, Meta(ge=1, le=MAX_INT32)]
Ports = Annotated[int, Meta(ge=0, le=1024)]
_TEMPLATE = "Pod template (metadata, spec) merged under what EDL sets: volumes, tolerations, nodeSelector, sidecars..."
_RESOURCES = "Compute resources of one pod of the role."


class Master(Spec, frozen=True, kw_only=True):
    """The master, which hands out tasks to the trainers."""

    resources: Annotated[Resources | None, Meta(description=_RESOURCES)] = None
    command: Annotated[
        tuple[str, ...] | None,
        Meta(description="Command to run in spec.image instead of EDL's own master."),
    ] = None
    template: Annotated[Template | None, Meta(description=_TEMPLATE)] = None


class Pserver(Spec, frozen=True, kw_only=True):
    """The parameter servers."""

    RULES: ClassVar[tuple[Rule, ...]] = (NotMore("min-instance", "max-instance"),)

    min_instance: Annotated[
        InstancesOrNone | None,
        Meta(description="Parameter servers beside the fewest trainers. Omitted: the trainers' min-instance."),
    ] = msgspec.field(default=None, name="min-instance")
    max_instance: Annotated[
        InstancesOrNone | None,
        Meta(
            description="Parameter servers beside the most trainers; in between in proportion. Omitted: min-instance."
        ),
    ] = msgspec.field(default=None, name="max-instance")
    resources: Annotated[Resources | None, Meta(description=_RESOURCES)] = None
    command: Annotated[
        tuple[str, ...] | None,
        Meta(description="Command to run in spec.image instead of EDL's own parameter server."),
    ] = None
    template: Annotated[Template | None, Meta(description=_TEMPLATE)] = None


class Trainer(Spec, frozen=True, kw_only=True):
    """The trainers, whose number is the size of the job."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        NotMore("min-instance", "max-instance"),
        NotMore("min-instance", "replicas"),
        NotMore("replicas", "max-instance", otherwise="min-instance"),
    )

    entrypoint: Annotated[Text, Meta(description="Command line of a trainer, run by `sh -c` in workspace.")]
    min_instance: Annotated[Instances, Meta(description="The fewest trainers that the job runs with, 1 or more.")] = (
        msgspec.field(name="min-instance")
    )
    max_instance: Annotated[
        Instances | None,
        Meta(description="The most trainers that the job grows to. Omitted: min-instance, the job is not elastic."),
    ] = msgspec.field(default=None, name="max-instance")
    replicas: Annotated[
        Instances | None,
        Meta(description="Trainers to start with; `kubectl scale` sets it. Omitted: min-instance."),
    ] = None
    workspace: Annotated[
        str | None, Meta(description="Directory in which entrypoint runs. Omitted: the image's working directory.")
    ] = None
    passes: Annotated[Passes | None, Meta(description="Passes over the data. Omitted: spec.passes, else 1.")] = None
    resources: Annotated[Resources | None, Meta(description=_RESOURCES)] = None
    template: Annotated[Template | None, Meta(description=_TEMPLATE)] = None


class Etcd(Spec, frozen=True, kw_only=True):
    """An etcd cluster of the job's own, for programs that need one."""

    RULES: ClassVar[tuple[Rule, ...]] = (Unchanging("replicas", "an etcd cluster keeps the size it began with"),)

    replicas: Annotated[Literal[1, 3, 5] | None, Meta(description="Members: 1, 3 or 5. Omitted: 1.")] = None
    image: Annotated[Text | None, Meta(description="Image with an `etcd` command.")] = None
    resources: Annotated[Resources | None, Meta(description=_RESOURCES)] = None
    template: Annotated[Template | None, Meta(description=_TEMPLATE)] = None


class TrainingJobSpec(Spec, frozen=True, kw_only=True):
    """What to train, with what, and between which sizes."""

    trainer: Annotated[Trainer, Meta(description="The trainers, whose number is the size of the job.")]
    pserver: Annotated[Pserver | None, Meta(description="The parameter servers. Omitted: none.")] = None
    master: Annotated[
        Master | None,
        Meta(description="The master, which hands out tasks. Omitted: none, and the job is never scaled; {} will do."),
    ] = None
    etcd: Annotated[Etcd | None, Meta(description="An etcd cluster of the job's own. Omitted: none.")] = None
    image: Annotated[Text | None, Meta(description="Image with the training program. Omitted: EDL's own.")] = None
    port: Annotated[Port | None, Meta(description="First port of a parameter server. Omitted: 7164.")] = None
    ports_num: Annotated[Ports | None, Meta(description="Number of ports for dense parameters. Omitted: 1.")] = None
    ports_num_for_sparse: Annotated[
        Ports | None, Meta(description="Number of ports for sparse parameters. Omitted: 1.")
    ] = None
    fault_tolerant: Annotated[
        bool | None,
        Meta(description="true: a trainer that fails is replaced. false (default): it fails the job."),
    ] = None
    backoff_limit: Annotated[
        Count | None,
        Meta(description="With fault_tolerant: how often one trainer may fail before the job does. Omitted: 6."),
    ] = None
    passes: Annotated[Passes | None, Meta(description="Passes over the data, unless trainer.passes says.")] = None
    mount_path: Annotated[
        Text | None,
        Meta(
            description="Where the job's data appears in every pod: the volume named data, else an empty directory. "
            "An absolute path, other than / and without a colon."
        ),
    ] = msgspec.field(default=None, name="mountPath")
    volumes: Annotated[tuple[Anything, ...] | None, Meta(description="Volumes of every pod, as in a pod.")] = None
    volume_mounts: Annotated[
        tuple[Anything, ...] | None, Meta(description="Volume mounts of every role, as in a container.")
    ] = msgspec.field(default=None, name="VolumeMounts")
    node_selector: Annotated[
        dict[str, str] | None, Meta(description="Labels that the nodes of every pod must have.")
    ] = msgspec.field(default=None, name="NodeSelector")
    image_pull_secrets: Annotated[
        tuple[Anything, ...] | None, Meta(description="Secrets to pull images with, as in a pod.")
    ] = msgspec.field(default=None, name="imagePullSecrets")
    host_network: Annotated[bool | None, Meta(description="Pods use the network of their node.")] = None
    priority: Annotated[
        Priority | None,
        Meta(description="Experiment, Offline, Normal (default), Production, or a positive number."),
    ] = None
    freezing_window: Annotated[
        Text | None, Meta(description="Time after a change of size without another one, e.g. 30s.")
    ] = None
    pause: Annotated[bool | None, Meta(description="true: the job keeps its present size.")] = None
    suspend: Annotated[bool | None, Meta(description="true: the job gives up its pods and keeps its place.")] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, Meta(description="The job is deleted this long after its end. Omitted: never.")
    ] = None


class TrainingScale(Scale, frozen=True, kw_only=True):
    """The scheduling facts, spelt as this kind spells its status."""

    roles_in_force: RolesInForce = msgspec.field(default=None, name="roles_in_force")
    last_scale_time: LastScaleTime = msgspec.field(default=None, name="last_scale_time")
    pod_seconds: PodSeconds = msgspec.field(default=0.0, name="pod_seconds")
    rescale_seconds: RescaleSeconds = msgspec.field(default=None, name="rescale_seconds")


class RoleStatus(ReplicaCounts, frozen=True, kw_only=True):
    """Pods of one role."""

    role: Annotated[str, Meta(description="master, pserver, trainer or etcd.")]


class TrainingRootCause(RootCause, frozen=True, kw_only=True):
    """Why the job failed, spelt as this kind spells its status."""

    exit_code: ExitCode = msgspec.field(default=None, name="exit_code")


class TrainingEndedPod(EndedPod, frozen=True, kw_only=True):
    """A pod that failed or was lost, spelt as this kind spells its status."""

    exit_code: ExitCode = msgspec.field(default=None, name="exit_code")


class TrainingJobStatus(Status, frozen=True, kw_only=True):
    """What is: written by the operator alone."""

    phase: Annotated[str, Meta(description="creating, running, scaling, succeeded or failed.")] = ""
    reason: Annotated[str, Meta(description="Why the job is in this phase.")] = ""
    scale_status: Annotated[TrainingScale | None, Meta(description="The scheduling facts of the job.")] = None
    replica_statuses: Annotated[
        tuple[RoleStatus, ...], Meta(description="Pods by role, each with counts by state.", extra={"key": "role"})
    ] = ()
    conditions: Annotated[
        tuple[JobCondition, ...], Meta(description="The job's conditions.", extra={"key": "type"})
    ] = ()
    root_cause: Annotated[TrainingRootCause | None, Meta(description="Why the job failed.")] = None
    progress: Annotated[JobProgress | None, Meta(description="How far the training has come.")] = None
    slots: Annotated[
        tuple[SlotMemory, ...], Meta(description="What the slots have been through.", extra={"key": "role"})
    ] = ()
    ended_pods: Annotated[
        tuple[TrainingEndedPod, ...],
        Meta(description="The last 5 pods that failed or were lost, newest last.", extra={"key": "pod"}),
    ] = ()
    start_time: Annotated[str | None, Meta(description="When the job was accepted.")] = None
    completion_time: Annotated[str | None, Meta(description="When the job ended.")] = None
    in_force: Annotated[
        str, Meta(description="The spec in force, as JSON: an edit that is refused does not change it.")
    ] = ""
    observed_generation: Annotated[
        int | None, Meta(description="The generation of the spec that this status describes.")
    ] = msgspec.field(default=None, name="observedGeneration")

    @property
    def finished(self) -> bool:
        return self.phase in ("succeeded", "failed")


class TrainingJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, kw_only=True):
    """An elastic PaddlePaddle training job: a master, parameter servers and trainers."""

    api_version: str = msgspec.field(default=API_VERSIONS[0], name="apiVersion")
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: TrainingJobSpec
    status: TrainingJobStatus = TrainingJobStatus()
