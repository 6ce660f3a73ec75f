"""The parts of a status that several kinds share. TrainingJob's own spellings (snake_case) stand beside it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from edl.api.spec import Status


class JobCondition(Status, frozen=True, kw_only=True, rename="camel"):
    """One aspect of the job's state."""

    type: Annotated[str, Meta(description="What the condition is about, e.g. Queued, Running, Failed.")]
    status: Annotated[str, Meta(description="True, False or Unknown.")]
    reason: Annotated[str, Meta(description="Stable code of the reason.")] = ""
    message: Annotated[str, Meta(description="The reason in words.")] = ""
    last_update_time: Annotated[str | None, Meta(description="When reason or message last changed.")] = None
    last_transition_time: Annotated[str | None, Meta(description="When status last changed.")] = None
    observed_generation: Annotated[int | None, Meta(description="The generation of the spec that was judged.")] = None


class ReplicaCounts(Status, frozen=True, kw_only=True):
    """Pods of one role."""

    desired: Annotated[int, Meta(description="Pods that the role should have now.")] = 0
    pending: Annotated[int, Meta(description="Pods that do not run yet.")] = 0
    active: Annotated[int, Meta(description="Pods that run.")] = 0
    succeeded: Annotated[int, Meta(description="Pods that finished well.")] = 0
    failed: Annotated[int, Meta(description="Pods that failed.")] = 0


class ScaleRecord(Status, frozen=True, kw_only=True):
    """One change of size."""

    before: Annotated[int, Meta(description="Size before.")] = msgspec.field(default=0, name="from")
    to: Annotated[int, Meta(description="Size after.")] = 0
    reason: Annotated[str, Meta(description="Why, in words.")] = ""
    time: Annotated[str | None, Meta(description="When.")] = None


class Scale(Status, frozen=True, kw_only=True, rename="camel"):
    """What the scheduler needs to remember about the job, and what it decided last."""

    current: Annotated[int, Meta(description="Instances that exist now.")] = 0
    target: Annotated[int | None, Meta(description="Instances granted by the scheduler.")] = None
    code: Annotated[str, Meta(description="Stable code of the reason for the target.")] = ""
    reason: Annotated[str, Meta(description="Why the target is what it is, in words.")] = ""
    last_scale_time: Annotated[str | None, Meta(description="When the target last changed.")] = None
    pod_seconds: Annotated[float, Meta(description="Running time of pods that are gone, in seconds.")] = 0.0
    rescale_seconds: Annotated[float | None, Meta(description="Measured pause of training by a change of size.")] = None
    selector: Annotated[str, Meta(description="Label selector of the pods that are counted.")] = ""
    history: Annotated[tuple[ScaleRecord, ...], Meta(description="The last 10 changes of size, newest last.")] = ()


class RootCause(Status, frozen=True, kw_only=True, rename="camel"):
    """Why the job failed."""

    pod: Annotated[str, Meta(description="The pod that failed first.")] = ""
    exit_code: Annotated[int | None, Meta(description="Exit code of its container.")] = None
    reason: Annotated[str, Meta(description="Reason as the node gave it, e.g. OOMKilled.")] = ""
    message: Annotated[str, Meta(description="Its last lines.")] = ""


class SlotMemory(Status, frozen=True, kw_only=True):
    """What the slots of one role have been through, beyond what their pods show. Keys of maps are indexes of slots."""

    role: Annotated[str, Meta(description="Role of the slots.")]
    peak: Annotated[int, Meta(description="Every slot below this one has had a pod.")] = 0
    done: Annotated[str, Meta(description="Slots whose work is finished, as ranges, e.g. 0-2,5.")] = ""
    pods: Annotated[
        dict[str, int] | None, Meta(description="The last pod of a slot, where it was not the first (0); -1 is none.")
    ] = None
    ended: Annotated[dict[str, int] | None, Meta(description="The last pod of a slot whose end is accounted for.")] = (
        None
    )
    failures: Annotated[dict[str, int] | None, Meta(description="Failures of a slot that count against its limit.")] = (
        None
    )


class ElasticStatus(Status, frozen=True, kw_only=True, rename="camel"):
    """Status of an ElasticJob of either group."""

    phase: Annotated[str, Meta(description="Created, Pending, Running, Scaling, Restarting, Succeeded or Failed.")] = ""
    reason: Annotated[str, Meta(description="Why the job is in this phase.")] = ""
    conditions: Annotated[
        tuple[JobCondition, ...], Meta(description="The job's conditions.", extra={"key": "type"})
    ] = ()
    replica_statuses: Annotated[
        dict[str, ReplicaCounts] | None, Meta(description="Pods by role, each with counts by state.")
    ] = None
    scale: Annotated[Scale | None, Meta(description="The scheduling facts of the job.")] = None
    root_cause: Annotated[RootCause | None, Meta(description="Why the job failed.")] = None
    slots: Annotated[
        tuple[SlotMemory, ...], Meta(description="What the slots have been through.", extra={"key": "role"})
    ] = ()
    attempt: Annotated[int, Meta(description="How often the whole job was started anew.")] = 0
    minimum_reached: Annotated[bool, Meta(description="The minimum size ran at least once.")] = False
    start_time: Annotated[str | None, Meta(description="When the job was accepted.")] = None
    completion_time: Annotated[str | None, Meta(description="When the job ended.")] = None
    observed_generation: Annotated[int | None, Meta(description="The generation that this status describes.")] = None

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")
