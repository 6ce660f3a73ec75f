"""Decides when a job's progress is written into its status: at most every 30 s, only if it would read differently.

A job that is held (paused or suspended) is left alone, and so is one that has ended; the write of its end brings the
last figures with it, and they stay. What the figures are is the job's own word (`Observed.progress`).
"""

from typing import Any

from msgspec.structs import replace

from edl.api.kubernetes import timestamp
from edl.api.status import JobProgress
from edl.jobs.core.outcome import Outcome

EVERY = 30.0


def with_progress(outcome: Outcome, old: Any, observed: JobProgress | None, now: float, *, held: bool) -> Outcome:
    """The outcome with the progress that its status should show. `old` is the status as it stands."""
    kept: JobProgress | None = old.progress
    due = due_at(kept, observed, held=held)
    if not old.finished and observed is not None and (outcome.status.finished or (due is not None and due <= now)):
        final = {"eta": ""} if outcome.status.finished else {}
        kept = replace(observed, time=timestamp.text(now), **final)
    if outcome.status.progress == kept:
        return outcome
    return replace(outcome, status=replace(outcome.status, progress=kept))


def due_at(written: JobProgress | None, observed: JobProgress | None, *, held: bool) -> float | None:
    """When what was observed may be written; None: there is nothing to write."""
    if observed is None or held:
        return None
    if written is None or written.time is None:
        return 0.0
    if (written.shown, written.eta) == (observed.shown, observed.eta):
        return None
    return timestamp.seconds(written.time) + EVERY
