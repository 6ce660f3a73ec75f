"""The status of a job whose spec cannot be accepted: it says what is wrong and how to mend it, and nothing is made."""

from msgspec.structs import replace

from edl.api.problem import Problem
from edl.api.training_job import TrainingJobStatus
from edl.jobs.conditions import Conditions
from edl.jobs.outcome import JobEvent, Outcome


def refused(old: TrainingJobStatus, problems: tuple[Problem, ...], generation: int, now: float) -> Outcome:
    """An edit may mend it at any time, so this is no end; a job that has ended stays so whatever is written into it."""
    if old.finished:
        return Outcome(old)
    words = "; ".join(str(problem) for problem in problems)
    conditions = Conditions(old.conditions, generation=generation, now=now)
    conditions.set("Valid", False, "Invalid", words)
    status = replace(old, reason=words[:1000], conditions=conditions.result(), observed_generation=generation)
    news = status.conditions != old.conditions
    return Outcome(status, urgent=news, events=(JobEvent("Warning", "Invalid", words),) if news else ())
