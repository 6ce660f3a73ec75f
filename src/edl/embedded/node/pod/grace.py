"""Termination grace of a pod: how long its containers may take to stop. Pure."""

from edl.api.kubernetes import timestamp
from edl.embedded.node.pod.types import Pod

LEAST_GRACE = 2.0
"""Left to a container after a long preStop hook, and to pods that the API server no longer has."""


def termination_grace(pod: Pod, *, gone: bool, now: float) -> float:
    """Seconds from now. `gone`: the API server no longer has the pod."""
    if gone:
        return min(LEAST_GRACE, pod.spec.termination_grace_period_seconds)
    meta = pod.metadata
    if meta.deletion_timestamp is not None:
        # The timestamp is when the grace is over; clocks may differ, so never longer than the grace itself.
        whole = float(meta.deletion_grace_period_seconds or 0)
        return max(0.0, min(whole, timestamp.seconds(meta.deletion_timestamp) + 1 - now))
    return pod.spec.termination_grace_period_seconds
