"""Time that a job has waited in the queue."""

from edl.api.kubernetes import timestamp
from edl.operator.reconcile.job_cache import Entry


def waited(entry: Entry, now: float) -> float:
    """Since it was queued (again), else since it was made; in seconds."""
    queued = next((one for one in entry.status.conditions if (one.type, one.status) == ("Queued", "True")), None)
    since = (queued.last_transition_time if queued is not None else None) or entry.raw.metadata.creation_timestamp
    return max(0.0, now - timestamp.seconds(since)) if since else 0.0
