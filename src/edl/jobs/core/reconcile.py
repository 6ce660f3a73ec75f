"""The skeleton of one reconcile, which every kind fills in: finished, not planned yet, or planned.

Pure: the same request gives the same outcome, and a request that shows an outcome carried out gives nothing to do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from edl.api import annotations
from edl.api.job_view import JobView
from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import Pod
from edl.api.status import EndedPod, RootCause, Scale, SlotMemory
from edl.jobs.core.actions import Action, Change, Delete
from edl.jobs.core.children import Owner
from edl.jobs.core.common_conditions import WAITS_FOR_STATE, CommonFacts
from edl.jobs.core.conditions import MESSAGE_INTERVAL
from edl.jobs.core.grant import Grant
from edl.jobs.core.in_force import remembered
from edl.jobs.core.maintenance import backing_off, expiry, soonest, without_refused
from edl.jobs.core.objects import EdlObject
from edl.jobs.core.outcome import JobEvent, Outcome, Refusal
from edl.jobs.core.pods.ended_pods import with_ended_pods
from edl.jobs.core.pods.fail_fast import failed_alike
from edl.jobs.core.pods.failures import cause_of
from edl.jobs.core.pods.slot_history import SlotHistory
from edl.jobs.core.pods.slots import SlotPod
from edl.jobs.core.progress import with_progress
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.core.stall import with_stall

UNPLANNED_FOR = 1.0  # a new job's first status waits so long for the scheduler's plan, so that both are one write
UNPLANNED = Grant(0, "Waiting", "the scheduler has not looked at it yet")
LEFTOVER_PAUSE = 1.0  # an object of an earlier job is in the way: so long until the next reconcile
J = TypeVar("J", bound=EdlObject)


class JobReconcile(ABC, Generic[J]):
    """`_view` and `_grant` (the scheduler's, else the one in status) are the kind's to set, and `_ttl`: how long after
    its end the job is deleted, None for never."""

    _view: JobView
    _grant: Grant | None
    _ttl: int | None = None
    _scale_field = "scale"
    """The member of its status that holds the scheduling facts."""
    _scale_type: type[Scale] = Scale
    _ended_pod_type: type[EndedPod] = EndedPod
    _pods_seen: Sequence[SlotPod] = ()
    """The job's own pods, for the kind to set."""

    def __init__(self, request: ReconcileRequest[J]) -> None:
        job = request.job
        self._job = job
        """As far as it can be honoured."""
        self._request, self._observed, self._now = request, request.observed, request.now
        self._owner = Owner(job.api_version, job.kind, job.metadata.name, job.metadata.uid, request.token)
        self._created = timestamp.seconds(job.metadata.creation_timestamp or timestamp.text(request.now))
        self._refresh_message = request.now - request.observed.message_time >= MESSAGE_INTERVAL

    def outcome(self) -> Outcome:
        old, held = self._request.job.status, self._view.pause or self._view.suspend
        outcome = with_progress(self._at_its_stage(), old, self._observed.progress, self._now, held=held)
        outcome = with_ended_pods(outcome, old, self._pods_seen, self._ended_pod_type)
        outcome = self._over(outcome) if outcome.status.finished else outcome
        meta = self._job.metadata
        return with_stall(
            outcome,
            meta.annotations,
            self._observed.idle,
            generation=meta.generation,
            now=self._now,
            default=self._request.stalled_after,
        )

    def _over(self, outcome: Outcome) -> Outcome:
        """A job that is over claims no size; in the place of the reason for one it says how and why it ended."""
        status, field = outcome.status, self._scale_field
        scale = getattr(status, field) or self._scale_type()
        ended = replace(
            scale,
            current=0,
            target=None,
            minimum=None,
            roles=None,
            roles_in_force=None,
            code=status.phase.capitalize(),
            reason=status.reason,
        )
        return replace(outcome, status=status.__replace__(**{field: ended}))

    def _at_its_stage(self) -> Outcome:
        status = self._request.job.status
        if status.finished:
            return self._after_end()
        if self._grant is not None:
            return self._remembering(self._planned(self._grant), begins=self._grant.target > 0)
        since = max(self._created, self._observed.message_time)
        if self._now - since < UNPLANNED_FOR:
            return Outcome(status, requeue_at=since + UNPLANNED_FOR)
        return self._remembering(replace(self._unplanned(UNPLANNED), urgent=status.phase == ""), begins=False)

    def _remembering(self, outcome: Outcome, *, begins: bool) -> Outcome:
        """With the spec in force in the status, before anything is done by it. `begins`: the job has or gets pods."""
        known = self._request.job.status.in_force
        now = remembered(self._job.spec) if (known or begins) and not outcome.status.finished else ""
        status = outcome.status.__replace__(in_force=now)
        return replace(outcome, status=status, urgent=outcome.urgent or now != known)

    def _hopeless(self, pods: Sequence[SlotPod], record: SlotHistory) -> RootCause | None:
        """Why the script cannot work: rounds of the rendezvous say so, or the ends of the pods that run it."""
        trains = self._observed.progress is not None or self._request.job.status.progress is not None
        if trains or not annotations.fails_fast(self._job.metadata.annotations):
            return None
        failed = failed_alike(pods, record)
        return self._observed.hopeless or (cause_of(failed) if failed is not None else None)

    @abstractmethod
    def _planned(self, grant: Grant) -> Outcome:
        """Of a job that the scheduler has planned for, be it with no pods at all."""

    @abstractmethod
    def _unplanned(self, grant: Grant) -> Outcome:
        """Of a job that the scheduler has not planned for, and should have by now. `grant` says so."""

    @abstractmethod
    def _released(self) -> Outcome:
        """Of a job that is over: releases what it still holds. Pods that ended stay for their logs."""

    def _after_end(self) -> Outcome:
        """Releases what the job still holds, and deletes it when its time is over."""
        released, owner = self._released(), self._owner
        expires = expiry(self._request.job.status.completion_time, self._ttl)
        if expires is None or expires > self._now:
            return replace(released, requeue_at=expires)
        return replace(released, actions=(Delete(owner.kind, owner.name, owner.uid),), action_events=())

    def _ready(self, actions: Sequence[Action]) -> list[Action]:
        """Those that no refusal keeps back at present."""
        return without_refused(actions, backing_off(self._observed, self._now))

    def _decided(
        self,
        status: Any,
        ready: Sequence[Action],
        *,
        decision: Callable[[Any, bool], object],
        events: Iterable[JobEvent],
        action_events: Iterable[JobEvent] = (),
        soft: Iterable[Change] = (),
        requeue_at: Iterable[float | None] = (),
    ) -> Outcome:
        """The outcome of a job that goes on, or ends now: urgent if its `decision` is another one than before."""
        destroys = any(isinstance(action, Delete) and action.kind == Pod.KIND for action in ready)
        retries = (refusal.retry_at for refusal in backing_off(self._observed, self._now))
        return Outcome(
            status,
            urgent=decision(status, destroys) != decision(self._request.job.status, destroys),
            actions=tuple(ready),
            soft=tuple(soft),
            events=tuple(events),
            action_events=tuple(action_events) if ready else (),
            requeue_at=soonest(*requeue_at, *retries),
        )

    def _leftover_retry(self, blocked: Refusal | None) -> float | None:
        return self._now + LEFTOVER_PAUSE if blocked is not None else None

    def _common_facts(self, grant: Grant, scale: Scale) -> CommonFacts:
        return CommonFacts(
            queued=grant.target == 0 and not self._view.suspend,
            suspended=self._view.suspend,
            code=scale.code,
            reason=scale.reason,
            refusals=self._observed.refusals,
            refused_edits=self._request.refused_edits,
            warnings=self._request.warnings,
            state_wait=self._state_wait(),
        )

    def _state_wait(self) -> str:
        """What a restored job waits for; as long as a new leader does not know, what the one before has found."""
        if annotations.RESTORED_FROM not in self._job.metadata.annotations:
            return ""
        if self._observed.state_wait is not None:
            return self._observed.state_wait
        known = (one for one in self._request.job.status.conditions if one.type == WAITS_FOR_STATE)
        return next((one.message for one in known if one.status == "True"), "")


def durable_decision(scale: Scale, slots: tuple[SlotMemory, ...], destroys: bool, *facts: Any) -> object:
    """The part of a status that a successor must know before we act on it; `facts` are the kind's own.

    What slots have been through beyond that is read from their pods, which are there until something is destroyed.
    """
    bare = slots if destroys else tuple(replace(memory, peak=0, pods=None) for memory in slots)
    kept = tuple(memory for memory in bare if destroys or memory.done or memory.ended or memory.failures)
    return facts, scale.target, scale.roles, scale.last_scale_time, scale.history, kept
