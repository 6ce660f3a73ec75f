"""What is told of a job that cannot be accepted, or not yet: what is wrong and how to mend it."""

from msgspec.structs import replace

from edl.api.problem import Problem
from edl.api.status import ElasticStatus
from edl.api.training_job import TrainingJobStatus
from edl.jobs.children import Child
from edl.jobs.conditions import Conditions
from edl.jobs.outcome import JobEvent, Outcome, Refusal


def refused(
    old: TrainingJobStatus | ElasticStatus, problems: tuple[Problem, ...], generation: int, now: float
) -> Outcome:
    """A spec that cannot be accepted: nothing is made. An edit may mend it at any time, so this is no end."""
    if old.finished:
        return Outcome(old)
    words = "; ".join(str(problem) for problem in problems)
    conditions = Conditions(old.conditions, generation=generation, now=now)
    conditions.set("Valid", False, "Invalid", words)
    status = replace(old, reason=words[:1000], conditions=conditions.result(), observed_generation=generation)
    news = status.conditions != old.conditions
    return Outcome(status, urgent=news, events=(JobEvent("Warning", "Invalid", words),) if news else ())


def name_taken(child: Child) -> Refusal:
    words = f"{child.kind} {child.name} exists and belongs to somebody else"
    return Refusal(child.kind, child.name, "ForeignObject", words, foreign=True)


def still_going(child: Child) -> Refusal:
    return Refusal(child.kind, child.name, "Leftover", "an earlier object of this name is still being removed")
