"""The status of an EasyDL job from what was found and planned, and the events that tell of its changes."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from edl.api import timestamp
from edl.api.annotations import LABEL_ROLE
from edl.api.easydl_job import EasydlStatus, FollowedPlan
from edl.api.easydl_plan import WORKER
from edl.api.roles import JobView
from edl.api.status import ReplicaCounts, RootCause, Scale
from edl.jobs.children import LABEL_UID
from edl.jobs.conditions import Conditions
from edl.jobs.easydl_role import RoleLook
from edl.jobs.judgement import Circumstances, condition_events, judge, scale_events, some, trouble_words
from edl.jobs.outcome import JobEvent
from edl.jobs.phase import Facts, next_phase
from edl.jobs.podset import Counts
from edl.jobs.record import to_status
from edl.jobs.slots import SlotPod

_PHASES = {"Created": "creating", "Pending": "creating", "Running": "running", "Scaling": "scaling"}


class Picture(msgspec.Struct, frozen=True):
    """One look at a job, complete: what the status is drawn from."""

    view: JobView
    plan: FollowedPlan
    scale: Scale
    """With the present grant in it."""
    roles: Sequence[RoleLook]
    facts: Facts
    found: Circumstances
    awaits: str = ""
    """What it waits for beside the scheduler: its plan."""
    end_words: str = ""
    end_code: str = ""
    root_cause: RootCause | None = None
    may_reword: bool = False

    @property
    def counts(self) -> Mapping[str, Counts]:
        return {role.name: role.plan.counts for role in self.roles if role.role or role.plan.counts != Counts()}

    @property
    def lead(self) -> RoleLook:
        return next(role for role in self.roles if role.name == self.view.lead.name)

    @property
    def trouble(self) -> SlotPod | None:
        """A pod that does not come up, with its reason."""
        found = (role.sight.trouble for role in self.roles)
        return next((pod for pod in found if pod is not None), None)


def draw(old: EasydlStatus, picture: Picture, now: float) -> EasydlStatus:
    view, lead = picture.view, picture.lead.plan.counts
    phase = _phase(old.phase, picture)
    conditions = Conditions(old.conditions, generation=view.generation, now=now)
    ready = conditions.get("Ready")
    _judge(conditions, picture)
    _set_end(conditions, picture)
    same = phase == old.phase and conditions.get("Ready") == ready and not picture.may_reword
    workers = next(role.plan.record for role in picture.roles if role.name == WORKER)
    memories = (to_status(role.name, role.plan.record) for role in picture.roles)
    when = timestamp.text(now)
    return EasydlStatus(
        phase=phase,
        reason=old.reason if same and old.reason else _reason(picture),
        conditions=conditions.result(),
        replica_statuses={role: ReplicaCounts(**msgspec.structs.asdict(one)) for role, one in picture.counts.items()},
        scale=replace(
            picture.scale,
            current=lead.active + lead.succeeded,
            pod_seconds=workers.seconds,
            selector=f"{LABEL_UID}={view.uid},{LABEL_ROLE}={view.lead.name}",
        ),
        root_cause=picture.root_cause or old.root_cause,
        slots=tuple(memory for memory in memories if memory is not None),
        attempt=old.attempt,
        minimum_reached=old.minimum_reached or (picture.facts.at_minimum and view.lead.name == WORKER),
        start_time=old.start_time or when,
        completion_time=old.completion_time or (when if picture.facts.end else None),
        observed_generation=view.generation,
        plan=picture.plan if picture.plan != FollowedPlan() else None,
    )


def _phase(old: str, picture: Picture) -> str:
    phase = next_phase(_PHASES.get(old, old.lower()), picture.facts)
    if phase != "creating":
        return phase.capitalize()
    pods = any(count.active or count.pending for count in picture.counts.values())
    return "Pending" if pods else "Created"


def _reason(picture: Picture) -> str:
    if picture.facts.end:
        return picture.end_words
    if picture.view.suspend:
        return "suspended by spec.suspend"
    if picture.found.queued:
        return picture.scale.reason
    if picture.trouble is not None:
        return trouble_words(picture.trouble)
    if not picture.facts.at_minimum:
        return "pods are starting"
    return picture.awaits


def _judge(conditions: Conditions, picture: Picture) -> None:
    judge(conditions, picture.found)
    if picture.plan.source:
        conditions.set("Planned", True, "Planned", f"it follows JobResource {picture.plan.source}")
    else:
        conditions.set("Planned", False, "NoPlan", "no JobResource names it yet: only its trainer runs")
    _set_ready(conditions, picture)


def _set_ready(conditions: Conditions, picture: Picture) -> None:
    facts = picture.facts
    if facts.end:
        conditions.set("Ready", False, "Finished")
    elif facts.at_minimum and not facts.held and not picture.found.queued:
        conditions.set("Ready", True, "MinimumRunning", "every minimum pod runs")
    elif picture.view.suspend:
        conditions.set("Ready", False, "Suspended")
    elif picture.found.queued:
        conditions.set("Ready", False, "Queued")
    elif picture.trouble is not None:
        conditions.set("Ready", False, picture.trouble.reason, trouble_words(picture.trouble))
    else:
        conditions.set("Ready", False, "Starting", "not every minimum pod runs; replicaStatuses has the numbers")


def _set_end(conditions: Conditions, picture: Picture) -> None:
    if picture.facts.end:
        kind = "Succeeded" if picture.facts.end == "succeeded" else "Failed"
        conditions.set(kind, True, picture.end_code, picture.end_words)


# Events.


def told(old: EasydlStatus, new: EasydlStatus, roles: Iterable[RoleLook]) -> list[JobEvent]:
    """The events of a step from one status to the next. The same step tells the same events."""
    events = [*scale_events("size", old.scale, new.scale), *condition_events(old.conditions, new.conditions)]
    if new.plan is not None and (old.plan is None or old.plan.source != new.plan.source):
        events.append(JobEvent("Normal", "Planned", f"it follows JobResource {new.plan.source}"))
    for role in roles:
        for failure in role.plan.failures:
            fate = "given up" if failure.final else f"replaced (failure {failure.count})"
            words = f"{failure.pod.name}: {failure.pod.cause or 'failed'}; {fate}"
            events.append(JobEvent("Warning", f"{role.name.capitalize()}Failed", words))
    if new.phase != old.phase:
        failed = new.phase == "Failed"
        events.append(JobEvent("Warning" if failed else "Normal", new.phase, new.reason or "every minimum pod runs"))
    return events


def done(roles: Iterable[RoleLook]) -> list[JobEvent]:
    """What carrying out the plan is worth telling: who takes the place of whom, and who was asked to leave."""
    events: list[JobEvent] = []
    plans = [role.plan for role in roles]
    made = [new.name for plan in plans for new in plan.create if new.attempt > 0]
    leaving = [pod.name for plan in plans for pod in plan.delete if pod.live]
    resized = [change.name for role in roles for change in role.resizes if change.subresource]
    for reason, words, names in (
        ("Replacing", "created", made),
        ("Leaving", "asked to leave:", leaving),
        ("Resizing", "asked its node to resize", resized),
    ):
        if names:
            events.append(JobEvent("Normal", reason, f"{words} {some(names)}"))
    return events


def decided(status: EasydlStatus, destroys: bool) -> object:
    """The part of a status that a successor must know before we act on it.

    What slots have been through beyond that is read from their pods, which are there until something is destroyed.
    """
    scale = status.scale or Scale()
    slots = tuple(memory if destroys else replace(memory, peak=0, pods=None) for memory in status.slots)
    bare = (memory for memory in slots if destroys or memory.done or memory.ended or memory.failures)
    return status.phase, scale.target, scale.last_scale_time, scale.history, tuple(bare), status.root_cause, status.plan
