"""Reconciles one job: observe, decide, record the decision in status, act, requeue.

Level-triggered: it reads the caches, never an event. What was decided is in the job's status before anything is done
about it (`Outcome.urgent`); a status that merely reports progress waits a moment, so that ten pods that start within a
second are one write.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import msgspec

from edl.api.kubernetes.core import Pod, Secret
from edl.api.kubernetes.meta import EMPTY
from edl.api.labels import LABEL_JOB, LABEL_KIND, LABEL_UID
from edl.api.status import MemberChange, RootCause
from edl.jobs.core.actions import Change, add, replace
from edl.jobs.core.kind import JobKind
from edl.jobs.core.outcome import JobEvent, Observed, Outcome, Refusal
from edl.jobs.core.pods.pod_builder import PodSettings
from edl.jobs.core.refusals import faulted, refused
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.core.stall import STALLED_AFTER
from edl.kube.cache.objects import Key
from edl.kube.controllers.recorder import EventRecorder, Reference
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.operator.reconcile.action_runner import ActionResults, ActionRunner
from edl.operator.reconcile.caches import Caches
from edl.operator.reconcile.companion_cache import CompanionCache
from edl.operator.reconcile.grants import Grants
from edl.operator.reconcile.job_cache import Entry, JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.operator.reconcile.shown_progress import shown_progress
from edl.operator.reconcile.soft_state import SoftState, for_numbers
from edl.operator.reconcile.write_guard import outside
from edl.operator.resources import RawJob, resource_of
from edl.protocol.progress import LastProgress

log = logging.getLogger(__name__)

SEEN_WITHIN = 10.0
UNWATCHED = frozenset({Secret.KIND})


class JobServiceConnection(Protocol):
    """The job service as a reconcile uses it."""

    def credentials(self, uid: str, created: float) -> tuple[str, str]:
        """Token and CA of the job with this uid, created then, for its Secret; empty where there is no service."""
        ...

    def pause_of(self, key: JobKey) -> float | None:
        """How long its last change of size stopped the job, if it said so."""
        ...

    def silence_of(self, key: JobKey) -> Mapping[str, float]:
        """Seconds since each of its pods last reported progress, by name; of those that ever did."""
        ...

    def hopeless_of(self, key: JobKey) -> RootCause | None:
        """Why its script cannot work, if the rounds of its rendezvous say so."""
        ...

    def progress_of(self, key: JobKey) -> LastProgress | None:
        """What it reported of its training, if it did."""
        ...

    def change_of(self, key: JobKey) -> MemberChange | None:
        """How its workers last changed, if they said so."""
        ...

    def state_wait_of(self, key: JobKey) -> str | None:
        """What it waits for, if it was restored and the state that it had is not there; empty: nothing; None: it is not
        known yet."""
        ...

    def changed(self, key: JobKey) -> None:
        """What is known of the job may have changed."""
        ...


class NoService:
    def credentials(self, uid: str, created: float) -> tuple[str, str]:
        return "", ""

    def pause_of(self, key: JobKey) -> float | None:
        return None

    def silence_of(self, key: JobKey) -> Mapping[str, float]:
        return EMPTY

    def hopeless_of(self, key: JobKey) -> RootCause | None:
        return None

    def progress_of(self, key: JobKey) -> LastProgress | None:
        return None

    def change_of(self, key: JobKey) -> MemberChange | None:
        return None

    def state_wait_of(self, key: JobKey) -> str | None:
        return None

    def changed(self, key: JobKey) -> None:
        return None


class Reconciler:
    """For the jobs of one kind. `settle`: how long what may wait does wait for more of its kind, in seconds. `on_spin`
    is called with a job whose status was written again and again though nothing else had changed."""

    def __init__(
        self,
        kind: JobKind,
        client: Client,
        caches: Caches,
        jobs: JobCache,
        grants: Grants,
        recorder: EventRecorder,
        *,
        settings: PodSettings,
        service: JobServiceConnection,
        settle: float = 0.6,
        stalled_after: float = STALLED_AFTER,
        clock: Callable[[], float] = time.time,
        on_spin: Callable[[JobKey], None] = lambda key: None,
    ) -> None:
        self._on_spin, self._stalled_after = on_spin, stalled_after
        self._caches, self._jobs, self._grants, self._recorder = caches, jobs, grants, recorder
        companion = kind.companion.kind if kind.companion is not None else None
        own = [resource_of(one) for one in (kind, companion) if one is not None]
        self._kind, self._resource, self._runner = kind, own[0], ActionRunner(client, *own)
        self._settings, self._service, self._settle, self._clock = settings, service, settle, clock
        self._companions = (
            CompanionCache(companion, caches.companions[companion.crd_name]) if companion is not None else None
        )
        self._soft_states: dict[str, SoftState] = {}
        self._waiting: dict[str, float] = {}
        """Since when a change that may wait does so, by the job's uid."""
        self._keys: dict[JobKey, str] = {}

    async def __call__(self, named: Key) -> float | None:
        key = JobKey(self._kind.crd_name, *named)
        entry = self._jobs.entry(key)
        self._forget_predecessor(key, entry)
        if entry is None or entry.raw.metadata.deletion_timestamp is not None:
            self._service.changed(key)
            return None  # its children are Kubernetes' to remove: they have an owner
        now = self._clock()
        state = self._soft_states.setdefault(entry.uid, SoftState(message_time=now))
        request = self._request(key, entry, state, now) if entry.job is not None else None
        try:
            outcome = self._decide(entry, request, now)
        except Exception as error:  # whatever it is, it is ours: it is told to the user, too, and not only to the log
            await self._apply(entry, state, faulted(entry.status, error, entry.raw.metadata.generation, now), now)
            raise
        held = state.guard.held_until(outside(request) if request is not None else entry.raw.metadata.generation, now)
        if held is not None and outcome.status != entry.status:
            return held - now
        try:
            return await self._apply(entry, state, outcome, now)
        finally:
            self._service.changed(key)

    def _forget_predecessor(self, key: JobKey, entry: Entry | None) -> None:
        uid = entry.uid if entry is not None else None
        known = self._keys.get(key)
        if known is not None and known != uid:
            self._soft_states.pop(known, None)
            self._waiting.pop(known, None)
            del self._keys[key]
        if uid is not None:
            self._keys[key] = uid

    # Looking.

    def _decide(self, entry: Entry, request: ReconcileRequest[Any] | None, now: float) -> Outcome:
        if request is None:
            return refused(entry.status, entry.refused, entry.raw.metadata.generation, now)
        return self._kind.reconcile(request)

    def _request(self, key: JobKey, entry: Entry, state: SoftState, now: float) -> ReconcileRequest[Any]:
        token, ca = self._service.credentials(entry.uid, entry.created)
        return ReconcileRequest(
            job=entry.job,
            observed=self._observed(key, entry, state, now),
            grant=self._grants.get(entry.uid),
            settings=self._settings,
            now=now,
            warnings=entry.warnings,
            refused_edits=entry.refused,
            token=token,
            ca=ca,
            companions=self._companions.of(key.namespace, key.name) if self._companions is not None else (),
            stalled_after=self._stalled_after,
        )

    def _observed(self, key: JobKey, entry: Entry, state: SoftState, now: float) -> Observed:
        state.forget_old(now)
        uid, observed = entry.uid, entry.status.observed_generation == entry.raw.metadata.generation
        held = {item: self._holder(key, uid, refusal) for item, refusal in state.refusals.items()}
        for item in [one for one, holder in held.items() if one[0] == Pod.KIND and holder is None]:
            if state.refusals[item].foreign:
                del state.refusals[item]
        reported = self._service.progress_of(key)
        return Observed(
            pods=self._caches.labelled_pods(key, uid),
            objects=self._caches.objects_of(key),
            made=frozenset(state.made),
            taken=frozenset(name for (_, name), holder in held.items() if holder is not None),
            refusals=tuple(one for item, one in state.refusals.items() if held[item] != "leftover"),
            message_time=state.may_reword_since(self._grants.get(uid), observed=observed),
            pause=self._service.pause_of(key),
            silence=self._service.silence_of(key),
            hopeless=self._service.hopeless_of(key),
            progress=shown_progress(reported),
            change=self._service.change_of(key),
            state_wait=self._service.state_wait_of(key),
            idle=reported.idle if reported is not None else None,
        )

    def _holder(self, key: JobKey, uid: str, refusal: Refusal) -> Literal["stranger", "leftover"] | None:
        """Whose pod has a name of ours, as long as it is there. What an earlier job of the name left is on its way out:
        its name is taken, and that is not worth a word."""
        if refusal.kind != Pod.KIND or not refusal.foreign:
            return None
        found = self._caches.pods.get((key.namespace, refusal.name))
        if found is None or found.metadata.labels.get(LABEL_UID) == uid:
            return None
        labels = found.metadata.labels
        earlier = (labels.get(LABEL_JOB), labels.get(LABEL_KIND)) == (key.name, key.kind)
        return "leftover" if earlier else "stranger"

    # Acting.

    async def _apply(self, entry: Entry, state: SoftState, outcome: Outcome, now: float) -> float | None:
        versions: dict[Resource, int] = {}
        grant = self._grants.get(entry.uid)  # that of the outcome: nothing was awaited since
        changed = outcome.status != entry.status
        delay = self._write_delay(entry, outcome)
        ready = outcome.urgent or self._is_due(entry.uid, outcome, changed, now, delay)
        if changed and ready:
            versions[self._resource] = await self._write_status(entry, outcome, state, now)
        if grant is not None and (ready or not changed):
            state.edition = grant.edition
        soft = outcome.soft if ready and not outcome.urgent else ()
        if soft:
            self._waiting.pop(entry.uid, None)
        actions = outcome.actions + soft
        results = await self._runner.run(actions, namespace=entry.raw.metadata.namespace)
        self._record_results(state, results, now)
        if outcome.actions and not results.refusals:
            self._emit_events(entry.raw, outcome.action_events)
        async with asyncio.timeout(SEEN_WITHIN):
            await self._caches.wait_seen(versions | results.versions)
        return self._requeue_after(entry.uid, state, outcome, results, delay)

    def _write_delay(self, entry: Entry, outcome: Outcome) -> float:
        """What a job says of itself waits a moment for more, numbers alone longer."""
        scale = self._kind.scale_of(outcome.status)
        if scale is None or outcome.status.conditions != entry.status.conditions:
            return self._settle
        return self._settle * for_numbers(scale.current, scale.target or 0, outcome.status.phase, len(self._waiting))

    def _is_due(self, uid: str, outcome: Outcome, changed: bool, now: float, delay: float) -> bool:
        """Whether what may wait has waited long enough. The end of a job waits for nothing."""
        if not changed and not outcome.soft:
            self._waiting.pop(uid, None)
            return False
        return outcome.status.finished or now - self._waiting.setdefault(uid, now) >= delay

    async def _write_status(self, entry: Entry, outcome: Outcome, state: SoftState, now: float) -> int:
        metadata = entry.raw.metadata
        status = msgspec.to_builtins(outcome.status)
        patch = (replace("/metadata/resourceVersion", metadata.resource_version), add("/status", status))
        change = Change(self._resource.kind, metadata.name, metadata.resource_version, patch, "status")
        results = await self._runner.run([change], namespace=metadata.namespace)
        self._waiting.pop(entry.uid, None)
        if state.guard.wrote(now):
            log.error("%s/%s: its status is written again and again; held back", metadata.namespace, metadata.name)
            self._on_spin(entry.key)
        if outcome.status.reason != entry.status.reason:
            state.message_time = now
        self._emit_events(entry.raw, outcome.events)
        return results.versions[self._resource]

    def _record_results(self, state: SoftState, results: ActionResults, now: float) -> None:
        state.succeed(results.made, unwatched=UNWATCHED)
        state.refuse(results.refusals, now)

    def _requeue_after(
        self, uid: str, state: SoftState, outcome: Outcome, results: ActionResults, delay: float
    ) -> float | None:
        if results.refusals:
            return 0.0  # to say so in the status: nothing else will requeue the job
        times = [outcome.requeue_at, state.next_expiry()]
        if uid in self._waiting:
            times.append(self._waiting[uid] + delay)
        soonest = min((when for when in times if when is not None), default=None)
        return None if soonest is None else max(0.0, soonest - self._clock())

    def _emit_events(self, raw: RawJob, events: tuple[JobEvent, ...]) -> None:
        if not events:
            return
        about = Reference.to(self._resource, raw)
        for event in events:
            self._recorder.record(about, event.reason, event.message, kind=event.type, controller=self._kind.component)
        message = "; ".join(f"{event.reason}: {event.message}" for event in events)
        log.info("%s/%s: %s", about.namespace, about.name, message)
