"""Holds back status writes of a job that follow each other though nothing but the status has changed.

A status that depends on what was written before would be written for ever, as fast as the API server answers. That is
a fault of ours wherever it happens, and this keeps it from filling the store: it is told of once, counted, and the
next writes wait, longer each time, until something else changes.
"""

from collections import deque
from collections.abc import Hashable

from edl.api.kubernetes.core import Job
from edl.jobs.core.children import ObservedChild
from edl.jobs.core.outcome import Observed
from edl.jobs.core.request import ReconcileRequest

WRITES = 10
WITHIN = 60.0
"""More writes than this in so many seconds, with no change outside, are held back. What time alone brings about is
less: a message once a minute, progress every 30 s."""
FIRST_PAUSE = 10.0
LONGEST_PAUSE = 300.0


class WriteGuard:
    """Of one job."""

    def __init__(self) -> None:
        self._seen: Hashable = None
        self._writes: deque[float] = deque(maxlen=WRITES)
        self._pause = 0.0
        self._until = 0.0

    def held_until(self, seen: Hashable, now: float) -> float | None:
        """When the next status may be written, None for now. `seen` is everything but the status, see `outside`."""
        if seen != self._seen:
            self._seen, self._pause, self._until = seen, 0.0, 0.0
            self._writes.clear()
        return self._until if self._until > now else None

    def wrote(self, now: float) -> bool:
        """Whether that was one too many."""
        many = len(self._writes) == WRITES and now - self._writes[0] < WITHIN
        spins = many or self._pause > 0.0  # once it spins, every further one is too many
        self._writes.append(now)
        if spins:
            self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
            self._until = now + self._pause
        return spins


def outside(request: ReconcileRequest[object]) -> Hashable:
    """All that a reconcile looks at but the status of the job and of its Job, which is ours as well, by versions."""
    metadata = request.job.metadata  # type: ignore[attr-defined]  # every job has it
    observed: Observed = request.observed
    grant = request.grant
    return (
        metadata.generation,
        tuple(sorted(metadata.annotations.items())),
        frozenset((pod.metadata.uid, pod.metadata.resource_version) for pod in observed.pods),
        frozenset((one.metadata.uid, _version(one)) for one in observed.objects.values()),
        frozenset((one.metadata.uid, one.metadata.generation) for one in request.companions),
        observed.refusals,
        observed.state_wait,
        None if grant is None else (grant.target, grant.code, grant.minimum, tuple(grant.roles.items())),
    )


def _version(child: ObservedChild) -> Hashable:
    return child.metadata.generation if isinstance(child, Job) else child.metadata.resource_version
