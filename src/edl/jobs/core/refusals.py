"""Status and refusals of a job that cannot be accepted, or whose names are taken."""

from edl.api.schema.problem import Problem
from edl.jobs.core.children import Child
from edl.jobs.core.conditions import Conditions
from edl.jobs.core.objects import JobStatus
from edl.jobs.core.outcome import JobEvent, Outcome, Refusal

FAULT = "InternalError"


def refused(old: JobStatus, problems: tuple[Problem, ...], generation: int, now: float) -> Outcome:
    """A spec that cannot be accepted: nothing is made. An edit may mend it at any time, so this is no end."""
    if old.finished:
        return Outcome(old)
    message = "; ".join(str(problem) for problem in problems)
    conditions = Conditions(old.conditions, generation=generation, now=now)
    conditions.set("Valid", False, "Invalid", message)
    status = old.__replace__(reason=message[:1000], conditions=conditions.result(), observed_generation=generation)
    news = status.conditions != old.conditions
    return Outcome(status, urgent=news, events=(JobEvent("Warning", "Invalid", message),) if news else ())


def faulted(old: JobStatus, error: Exception, generation: int, now: float) -> Outcome:
    """An object that breaks our own code: nothing can be done for it, and whoever looks at it is told why."""
    if old.finished:
        return Outcome(old)
    what = f"{type(error).__name__}: {error}"[:300]
    message = f"EDL fails on this job, and does nothing for it: {what}; that is a fault of EDL, please report it"
    conditions = Conditions(old.conditions, generation=generation, now=now)
    conditions.set("Valid", False, FAULT, message)
    status = old.__replace__(reason=message, conditions=conditions.result(), observed_generation=generation)
    news = status.conditions != old.conditions
    return Outcome(status, urgent=news, events=(JobEvent("Warning", FAULT, message),) if news else ())


def name_taken(child: Child) -> Refusal:
    message = f"{child.kind} {child.name} exists and belongs to somebody else"
    return Refusal(child.kind, child.name, "ForeignObject", message, foreign=True)


def still_terminating(child: Child) -> Refusal:
    return Refusal(child.kind, child.name, "Leftover", "an earlier object of this name is still being removed")
