"""The condition Stalled: a job that runs, has told of progress, and has made none for a while, whatever the reason.

It says so and changes nothing else. What counts as progress is the job's own word (`Observed.idle`); a job that never
told of any is not judged. `edl.dev/stalled-after` is the time, else the installation's (`--stalled-after`); 0: never.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from edl.api import annotations
from edl.api.kubernetes import duration
from edl.jobs.core.conditions import Conditions
from edl.jobs.core.maintenance import soonest
from edl.jobs.core.outcome import JobEvent, Outcome

STALLED = "Stalled"
STALLED_AFTER = 600.0
_AT_WORK = ("running", "scaling", "restarting")  # phases, in lower case


def with_stall(
    outcome: Outcome,
    notes: Mapping[str, str],
    idle: float | None,
    *,
    generation: int,
    now: float,
    default: float = STALLED_AFTER,
) -> Outcome:
    """`idle`: seconds since the job last made progress, None if it never told of any. `default`: the time of jobs that
    name none."""
    limit = _stalled_after(notes, default)
    judged = idle is not None and limit > 0 and outcome.status.phase.lower() in _AT_WORK
    conditions = Conditions(outcome.status.conditions, generation=generation, now=now)
    before = conditions.is_true(STALLED)
    events = outcome.events
    if judged and idle is not None and idle >= limit:
        message = f"it runs, and has made no progress for {limit:g} s or more ({annotations.STALLED_AFTER})"
        conditions.set(STALLED, True, "NoProgress", message)
        events = events if before else (*events, JobEvent("Warning", STALLED, message))
    elif idle is not None or outcome.status.phase.lower() not in _AT_WORK:  # a new leader has not heard of it yet
        conditions.clear(STALLED, "Progress" if judged else "NotRunning")
    later = now + limit - idle if judged and idle is not None and idle < limit else None
    status = outcome.status.__replace__(conditions=conditions.result())
    return replace(outcome, status=status, events=events, requeue_at=soonest(outcome.requeue_at, later))


def _stalled_after(notes: Mapping[str, str], default: float) -> float:
    text = notes.get(annotations.STALLED_AFTER)
    return duration.seconds(text) if text else default
