"""Conditions that jobs of all kinds have, and the Events that report their changes."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from edl.api.schema.problem import Problem
from edl.api.status import JobCondition, RootCause, Scale
from edl.jobs.core.conditions import Conditions
from edl.jobs.core.outcome import JobEvent, Refusal
from edl.jobs.core.phase import Facts
from edl.jobs.core.pods.pod_set import PodSetPlan
from edl.jobs.core.pods.slots import SlotPod

WAITS_FOR_STATE = "WaitsForState"
S = TypeVar("S", bound=Scale)


class CommonFacts(msgspec.Struct, frozen=True):
    """What a reconcile found out about a job beside its pods. `code` and `reason` are those of its size."""

    queued: bool = False
    suspended: bool = False
    code: str = ""
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()
    refused_edits: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    state_wait: str = ""
    """What a restored job waits for before it can go on."""

    @property
    def waits_for_state(self) -> bool:
        """Nothing else keeps it from training that would have to pass first."""
        return bool(self.state_wait) and not self.suspended and not self.queued


def set_common_conditions(conditions: Conditions, found: CommonFacts) -> None:
    """Warned, Queued, Suspended, WaitsForState, NameTaken, Refused. What was never so need not be said."""
    if found.refused_edits:
        conditions.set("Valid", False, "EditRefused", "; ".join(str(problem) for problem in found.refused_edits))
    else:
        conditions.restore("Valid", "Accepted")
    if found.warnings:
        conditions.set("Warned", True, "SpecWarning", "; ".join(str(warning) for warning in found.warnings))
    else:
        conditions.clear("Warned", "Mended")
    if found.queued:
        conditions.set("Queued", True, found.code or "Waiting", found.reason, steady=True)
    else:
        conditions.clear("Queued", "Admitted", found.reason)
    if found.suspended:
        conditions.set("Suspended", True, "Suspended", "spec.suspend is true: its pods are freed, its place is kept")
    else:
        conditions.clear("Suspended", "Resumed")
    if found.state_wait:
        conditions.set(WAITS_FOR_STATE, True, "NotRestored", found.state_wait, steady=True)
    else:
        conditions.clear(WAITS_FOR_STATE, "Restored")
    _set_refusals(conditions, found.refusals)


def set_ready(
    conditions: Conditions, facts: Facts, found: CommonFacts, startup_problem: SlotPod | None, *, counts: str
) -> None:
    """Ready: every minimum pod is. `counts` is the field of the status that holds the numbers."""
    if facts.end:
        conditions.set("Ready", False, "Finished")
    elif found.waits_for_state:
        conditions.set("Ready", False, WAITS_FOR_STATE, found.state_wait, steady=True)
    elif facts.at_minimum and facts.ready and not facts.held and not found.queued:
        conditions.set("Ready", True, "MinimumRunning", "every minimum pod is ready")
    elif found.suspended:
        conditions.set("Ready", False, "Suspended")
    elif found.queued:
        conditions.set("Ready", False, "Queued")
    elif startup_problem is not None:
        conditions.set("Ready", False, startup_problem.reason, startup_problem_message(startup_problem))
    elif facts.at_minimum:
        conditions.set("Ready", False, "NotReady", "every minimum pod runs, but not every one is ready")
    else:
        conditions.set("Ready", False, "Starting", f"not every minimum pod runs; {counts} has the numbers")


def _set_refusals(conditions: Conditions, refusals: tuple[Refusal, ...]) -> None:
    taken = [refusal for refusal in refusals if refusal.foreign]
    others = [refusal for refusal in refusals if not refusal.foreign]
    if taken:
        message = "; ".join(refusal.message for refusal in taken)
        conditions.set("NameTaken", True, "ForeignObject", f"{message}; delete or rename it, EDL will not touch it")
    else:
        conditions.clear("NameTaken", "Free")
    if others:
        first = others[0]
        conditions.set("Refused", True, first.code, f"{first.kind} {first.name}: {first.message}")
    else:
        conditions.clear("Refused", "Made")


_WARN = {"Warned": "True", WAITS_FOR_STATE: "True", "NameTaken": "True", "Refused": "True", "Valid": "False"}
_TELL = {"Queued": "True", "Suspended": "True"}


def condition_events(old: Iterable[JobCondition], new: Iterable[JobCondition]) -> list[JobEvent]:
    known = {condition.type: condition for condition in old}
    events: list[JobEvent] = []
    for condition in new:
        before = known.get(condition.type)
        if before is not None and (before.status, before.reason) == (condition.status, condition.reason):
            continue
        if _WARN.get(condition.type) == condition.status:
            events.append(JobEvent("Warning", condition.reason, condition.message))
        elif _TELL.get(condition.type) == condition.status:
            events.append(JobEvent("Normal", condition.type, condition.message))
    return events


def scale_events(what: str, old: Scale | None, new: Scale | None) -> list[JobEvent]:
    """`what` the size counts, in the plural."""
    before, after = ((scale.target if scale is not None else None) or 0 for scale in (old, new))
    if new is None or before == after:
        return []
    reason = "Admitted" if before == 0 else "ScaledUp" if after > before else "ScaledDown"
    why = new.history[-1].reason if new.history else new.reason  # what is shown as the reason may be another wait
    return [JobEvent("Normal", reason, f"{what} {before} -> {after}: {why}")]


def with_wait(scale: S, found: CommonFacts) -> S:
    """In the place of the reason for its size a job that waits for its state says so: tables show that one."""
    return replace(scale, code=WAITS_FOR_STATE, reason=found.state_wait) if found.waits_for_state else scale


def held_message(found: CommonFacts, startup_problem: SlotPod | None) -> str | None:
    """What keeps its pods from running, in words; None if nothing does that they could not overcome by themselves."""
    if found.suspended:
        return "suspended by spec.suspend"
    if found.queued:
        return found.reason
    if found.waits_for_state:
        return found.state_wait
    return startup_problem_message(startup_problem) if startup_problem is not None else None


def startup_problem_message(pod: SlotPod) -> str:
    return f"pod {pod.name}: {pod.reason}{f': {pod.message}' if pod.message else ''}"


def failure_message(role: str, cause: RootCause | None, times: int = 1) -> str:
    if cause is None:
        return f"a {role} failed"
    exited = f"exit code {cause.exit_code}" if cause.exit_code is not None else ""
    what = ", ".join(part for part in (cause.reason, exited) if part) or "failed"
    last = cause.message.strip().rpartition("\n")[2]
    often = f" {times} times" if times > 1 else ""
    return f"{role} {cause.pod} failed{often}: {what}{f': {last}' if last else ''}"


def action_events(plans: Sequence[PodSetPlan], resized: Sequence[str] = ()) -> list[JobEvent]:
    """Events of running plans: replacements, and pods asked to leave or resized."""
    replaced = [new.name for plan in plans for new in plan.create if new.attempt > 0]
    leaving = [pod.name for plan in plans for pod in plan.delete if pod.live]
    rows = (
        ("Replacing", "created", replaced),
        ("Leaving", "asked to leave:", leaving),
        ("Resizing", "asked its node to resize", resized),
    )
    return [JobEvent("Normal", reason, f"{message} {some(names)}") for reason, message, names in rows if names]


def some(names: Sequence[str]) -> str:
    """The first few of them."""
    return f"{', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
