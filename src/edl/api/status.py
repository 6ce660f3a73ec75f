"""Parts of a status that several kinds share, in camelCase. A kind that spells one otherwise derives from it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from edl.api.schema.spec import Status


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


class MemberChange(Status, frozen=True, kw_only=True, rename="camel"):
    """How the workers that train together last changed, as they say themselves."""

    round: Annotated[int, Meta(description="Number of the round that they train in since.")] = 0
    before: Annotated[int, Meta(description="Workers before.")] = msgspec.field(default=0, name="from")
    to: Annotated[int, Meta(description="Workers after.")] = 0
    in_place: Annotated[bool, Meta(description="Workers lived on; false: all were started anew.")] = False
    pause_seconds: Annotated[
        float, Meta(description="How long training stopped; if workers were started anew, how long there were none.")
    ] = 0.0
    steps_lost: Annotated[
        int | None, Meta(description="Steps that have to be made again; not there if only the script knows.")
    ] = None
    bytes_sent: Annotated[int, Meta(description="State that newcomers received from others.")] = 0
    time: Annotated[str | None, Meta(description="When this was written.")] = None

    @property
    def words(self) -> str:
        way = "in place" if self.in_place else "by a restart"
        lost = "" if self.steps_lost is None else f", {self.steps_lost} steps lost"
        sent = f", {_size(self.bytes_sent)} sent" if self.in_place else ""
        return f"workers {self.before} -> {self.to} {way}: training stopped for {self.pause_seconds:.2f} s{lost}{sent}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}"
        count /= 1000
    raise AssertionError


class SizeHold(Status, frozen=True, kw_only=True):
    """A size that a user asked for."""

    size: Annotated[int, Meta(description="The size.")] = 0
    until: Annotated[str | None, Meta(description="When the scheduler goes on from there.")] = None


RolesInForce = Annotated[
    dict[str, int] | None,
    Meta(description="Of these, as many as the minimum in force has; not there once those that were granted ran."),
]
LastScaleTime = Annotated[str | None, Meta(description="When the target last changed.")]
PodSeconds = Annotated[float, Meta(description="Running time of pods that are gone, in seconds.")]
RescaleSeconds = Annotated[float | None, Meta(description="Measured pause of training by a change of size.")]
ExitCode = Annotated[int | None, Meta(description="Exit code of its container.")]


class Scale(Status, frozen=True, kw_only=True, rename="camel"):
    """What the scheduler needs to remember about the job, and what it decided last."""

    current: Annotated[int, Meta(description="Instances that exist now.")] = 0
    # One name from the scheduler's plan to here.
    target: Annotated[int | None, Meta(description="Instances granted by the scheduler.")] = None
    minimum: Annotated[
        int | None, Meta(description="The minimum in force: a larger one in the spec counts once it was reached.")
    ] = None
    roles: Annotated[
        dict[str, int] | None,
        Meta(description="Pods granted of the other roles: more that are asked for since wait until all have room."),
    ] = None
    roles_in_force: RolesInForce = None
    hold: Annotated[SizeHold | None, Meta(description="The size that is held because a user asked for it.")] = None
    request: Annotated[
        str, Meta(description="The last edl.dev/scale-request, which `edl scale` writes, that was obeyed.")
    ] = ""
    code: Annotated[str, Meta(description="Stable code of the reason for the target.")] = ""
    reason: Annotated[str, Meta(description="Why the target is what it is, in words.")] = ""
    last_scale_time: LastScaleTime = None
    pod_seconds: PodSeconds = 0.0
    rescale_seconds: RescaleSeconds = None
    selector: Annotated[str, Meta(description="Label selector of the pods that are counted.")] = ""
    history: Annotated[tuple[ScaleRecord, ...], Meta(description="The last 10 changes of size, newest last.")] = ()


class RootCause(Status, frozen=True, kw_only=True, rename="camel"):
    """Why the job failed."""

    pod: Annotated[str, Meta(description="The pod that failed first.")] = ""
    exit_code: ExitCode = None
    reason: Annotated[str, Meta(description="Reason as the node gave it, e.g. OOMKilled.")] = ""
    message: Annotated[str, Meta(description="Its last lines.")] = ""


class EndedPod(Status, frozen=True, kw_only=True, rename="camel"):
    """A pod that failed or was lost, and may be gone."""

    pod: Annotated[str, Meta(description="Its name.")]
    exit_code: ExitCode = None
    reason: Annotated[str, Meta(description="Reason as the node gave it, e.g. OOMKilled.")] = ""
    message: Annotated[str, Meta(description="The end of its last lines.")] = ""
    time: Annotated[str | None, Meta(description="When it ended.")] = None


class JobProgress(Status, frozen=True, kw_only=True):
    """How far the training has come, as the job itself reports it. All kinds spell it alike."""

    shown: Annotated[str, Meta(description="For people: 42%, or the steps done if nobody knows the total.")] = ""
    eta: Annotated[str, Meta(description="Time to the end at the present pace, e.g. 12m; empty if unknown.")] = ""
    done: Annotated[int | None, Meta(description="Steps, or tasks of the queue, that are done.")] = None
    total: Annotated[int | None, Meta(description="How many there are in all.")] = None
    epoch: Annotated[float | None, Meta(description="Epoch, or pass, that the training is in.")] = None
    loss: Annotated[float | None, Meta(description="The last loss.")] = None
    throughput: Annotated[float | None, Meta(description="Samples per second of late.")] = None
    mean: Annotated[float | None, Meta(description="Samples per second from the first report to the last.")] = None
    seconds: Annotated[float | None, Meta(description="Seconds from the first report to the last.")] = None
    time: Annotated[str | None, Meta(description="When this was written.")] = None


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
    forgiven: Annotated[
        dict[str, int] | None,
        Meta(description="Of pods without slots, by name: restarts that no longer count against the limit."),
    ] = None


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
    progress: Annotated[JobProgress | None, Meta(description="How far the training has come.")] = None
    last_change: Annotated[
        MemberChange | None, Meta(description="How the workers that train together last changed.")
    ] = None
    slots: Annotated[
        tuple[SlotMemory, ...], Meta(description="What the slots have been through.", extra={"key": "role"})
    ] = ()
    ended_pods: Annotated[
        tuple[EndedPod, ...],
        Meta(description="The last 5 pods that failed or were lost, newest last.", extra={"key": "pod"}),
    ] = ()
    attempt: Annotated[int, Meta(description="How often the whole job was started anew.")] = 0
    minimum_reached: Annotated[bool, Meta(description="The minimum size ran at least once.")] = False
    start_time: Annotated[str | None, Meta(description="When the job was accepted.")] = None
    completion_time: Annotated[str | None, Meta(description="When the job ended.")] = None
    in_force: Annotated[
        str, Meta(description="The spec in force, as JSON: an edit that is refused does not change it.")
    ] = ""
    observed_generation: Annotated[int | None, Meta(description="The generation that this status describes.")] = None

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")
