"""What every kind says of itself in the same words: conditions that all jobs have, and the events that tell of them."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from edl.api.problem import Problem
from edl.api.status import JobCondition
from edl.jobs.conditions import Conditions
from edl.jobs.outcome import JobEvent, Refusal
from edl.jobs.slots import SlotPod


class Circumstances(msgspec.Struct, frozen=True):
    """What a look found out about a job beside its pods. `code` and `reason` are those of its size."""

    queued: bool = False
    suspended: bool = False
    code: str = ""
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()
    refused_edits: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


class Sized(Protocol):
    @property
    def target(self) -> int | None: ...
    @property
    def reason(self) -> str: ...


class Cause(Protocol):
    @property
    def pod(self) -> str: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


def judge(conditions: Conditions, found: Circumstances) -> None:
    """Warned, Queued, Suspended, NameTaken, Refused. What was never so need not be said."""
    if found.refused_edits:
        conditions.set("Valid", False, "EditRefused", "; ".join(str(problem) for problem in found.refused_edits))
    else:
        conditions.restore("Valid", "Accepted")
    if found.warnings:
        conditions.set("Warned", True, "SpecWarning", "; ".join(str(warning) for warning in found.warnings))
    else:
        conditions.clear("Warned", "Mended")
    if found.queued:
        conditions.set("Queued", True, found.code or "Waiting", found.reason)
    else:
        conditions.clear("Queued", "Admitted", found.reason)
    if found.suspended:
        conditions.set("Suspended", True, "Suspended", "spec.suspend is true: its pods are freed, its place is kept")
    else:
        conditions.clear("Suspended", "Resumed")
    _set_refusals(conditions, found.refusals)


def _set_refusals(conditions: Conditions, refusals: tuple[Refusal, ...]) -> None:
    taken = [refusal for refusal in refusals if refusal.foreign]
    others = [refusal for refusal in refusals if not refusal.foreign]
    if taken:
        words = "; ".join(refusal.message for refusal in taken)
        conditions.set("NameTaken", True, "ForeignObject", f"{words}; delete or rename it, EDL will not touch it")
    else:
        conditions.clear("NameTaken", "Free")
    if others:
        first = others[0]
        conditions.set("Refused", True, first.code, f"{first.kind} {first.name}: {first.message}")
    else:
        conditions.clear("Refused", "Made")


_WARN = {"Warned": "True", "NameTaken": "True", "Refused": "True", "Valid": "False"}
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


def scale_events(what: str, old: Sized | None, new: Sized | None) -> list[JobEvent]:
    """`what` the size counts, in the plural."""
    before, after = ((scale.target if scale is not None else None) or 0 for scale in (old, new))
    if new is None or before == after:
        return []
    reason = "Admitted" if before == 0 else "ScaledUp" if after > before else "ScaledDown"
    return [JobEvent("Normal", reason, f"{what} {before} -> {after}: {new.reason}")]


def trouble_words(pod: SlotPod) -> str:
    return f"pod {pod.name}: {pod.reason}{f': {pod.message}' if pod.message else ''}"


def failure_words(role: str, cause: Cause | None) -> str:
    if cause is None:
        return f"a {role} failed"
    exited = f"exit code {cause.exit_code}" if cause.exit_code is not None else ""
    what = ", ".join(part for part in (cause.reason, exited) if part) or "failed"
    last = cause.message.strip().rpartition("\n")[2]
    return f"{role} {cause.pod} failed: {what}{f': {last}' if last else ''}"


def some(names: list[str]) -> str:
    """The first few of them."""
    return f"{', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
