"""One job at a time: look, write what was decided, do it, and come back when there is reason to.

Level-triggered: it reads the caches, never an event. What was decided is in the job's status before anything is done
about it (`Outcome.urgent`); what merely tells how things stand waits a moment, so that ten pods that start within a
second are one write.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import msgspec

from edl.api.annotations import LABEL_JOB, LABEL_KIND
from edl.api.core import Pod, Secret
from edl.api.meta import EMPTY
from edl.jobs.children import LABEL_UID
from edl.jobs.intents import Change, add, replace
from edl.jobs.look import Look
from edl.jobs.outcome import JobEvent, Observed, Outcome, Refusal
from edl.jobs.pods import PodSettings
from edl.jobs.refusal import refused
from edl.kube.client import Client
from edl.kube.objects import Key
from edl.kube.recorder import EventRecorder, Reference
from edl.kube.resource import Resource
from edl.operator.book import Entry, JobBook
from edl.operator.caches import Caches
from edl.operator.executor import Deeds, Executor
from edl.operator.grants import Grants
from edl.operator.kinds import JobKey, JobKind
from edl.operator.notes import Notes, for_numbers
from edl.operator.plans import PlanBook
from edl.operator.resources import RawJob

log = logging.getLogger(__name__)

SEEN_WITHIN = 10.0
UNWATCHED = frozenset({Secret.KIND})


class ServiceLink(Protocol):
    """What the job service gives to a look at a job, and learns from it."""

    def credentials(self, uid: str) -> tuple[str, str]:
        """Token and CA of the job with this uid, for its Secret; empty where there is no service."""
        ...

    def pause_of(self, key: JobKey) -> float | None:
        """How long its last change of size stopped the job, if it said so."""
        ...

    def silence_of(self, key: JobKey) -> Mapping[str, float]:
        """Seconds since each of its pods last reported progress, by name; of those that ever did."""
        ...

    def changed(self, key: JobKey) -> None:
        """What is known of the job may have changed."""
        ...


class NoService:
    def credentials(self, uid: str) -> tuple[str, str]:
        return "", ""

    def pause_of(self, key: JobKey) -> float | None:
        return None

    def silence_of(self, key: JobKey) -> Mapping[str, float]:
        return EMPTY

    def changed(self, key: JobKey) -> None:
        return None


class Reconciler:
    """For the jobs of one kind. `settle`: how long what may wait does wait for more of its kind, in seconds."""

    def __init__(
        self,
        kind: JobKind,
        client: Client,
        caches: Caches,
        book: JobBook,
        grants: Grants,
        recorder: EventRecorder,
        *,
        settings: PodSettings,
        service: ServiceLink,
        settle: float = 0.6,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._caches, self._book, self._grants, self._recorder = caches, book, grants, recorder
        self._kind, self._executor = kind, Executor(client, kind.resource)
        self._settings, self._service, self._settle, self._clock = settings, service, settle, clock
        self._plans = PlanBook(caches.plans)
        self._notes: dict[str, Notes] = {}
        self._waiting: dict[str, float] = {}
        """Since when a change that may wait does so, by the job's uid."""
        self._keys: dict[JobKey, str] = {}

    async def __call__(self, named: Key) -> float | None:
        key = JobKey(self._kind.name, *named)
        entry = self._book.entry(key)
        self._forget_predecessor(key, entry)
        if entry is None or entry.raw.metadata.deletion_timestamp is not None:
            self._service.changed(key)
            return None  # its children are Kubernetes' to remove: they have an owner
        now = self._clock()
        notes = self._notes.setdefault(entry.uid, Notes(worded_at=now))
        outcome = self._look(key, entry, notes, now)
        try:
            return await self._act(entry, notes, outcome, now)
        finally:
            self._service.changed(key)

    def _forget_predecessor(self, key: JobKey, entry: Entry | None) -> None:
        uid = entry.uid if entry is not None else None
        known = self._keys.get(key)
        if known is not None and known != uid:
            self._notes.pop(known, None)
            self._waiting.pop(known, None)
            del self._keys[key]
        if uid is not None:
            self._keys[key] = uid

    # Looking.

    def _look(self, key: JobKey, entry: Entry, notes: Notes, now: float) -> Outcome:
        if entry.job is None:
            return refused(entry.status, entry.refused, entry.raw.metadata.generation, now)
        token, ca = self._service.credentials(entry.uid)
        look = Look(
            job=entry.job,
            observed=self._observed(key, entry.uid, notes, now),
            grant=self._grants.get(entry.uid),
            settings=self._settings,
            now=now,
            warnings=entry.warnings,
            refused_edits=entry.refused,
            token=token,
            ca=ca,
            companions=self._plans.of(key.namespace, key.name) if self._kind.planned else (),
        )
        return self._kind.look(look)

    def _observed(self, key: JobKey, uid: str, notes: Notes, now: float) -> Observed:
        notes.forget_old(now)
        held = {item: self._holder(key, uid, refusal) for item, refusal in notes.refusals.items()}
        for item in [one for one, holder in held.items() if one[0] == Pod.KIND and holder is None]:
            if notes.refusals[item].foreign:
                del notes.refusals[item]
        return Observed(
            pods=self._caches.pods_of(uid),
            objects=self._caches.objects_of(key),
            made=frozenset(notes.made),
            taken=frozenset(name for (_, name), holder in held.items() if holder is not None),
            refusals=tuple(one for item, one in notes.refusals.items() if held[item] != "leftover"),
            worded_at=notes.worded_at,
            pause=self._service.pause_of(key),
            silence=self._service.silence_of(key),
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

    async def _act(self, entry: Entry, notes: Notes, outcome: Outcome, now: float) -> float | None:
        versions: dict[Resource, int] = {}
        changed = outcome.status != entry.status
        patience = self._patience(entry, outcome)
        ready = outcome.urgent or self._is_time(entry.uid, outcome, changed, now, patience)
        if changed and ready:
            versions[self._kind.resource] = await self._write_status(entry, outcome, notes, now)
        soft = outcome.soft if ready and not outcome.urgent else ()
        if soft:
            self._waiting.pop(entry.uid, None)
        intents = outcome.intents + soft
        deeds = await self._executor.carry_out(intents, namespace=entry.raw.metadata.namespace, job_uid=entry.uid)
        self._note(notes, deeds, now)
        if outcome.intents and not deeds.refusals:
            self._tell(entry.raw, outcome.deeds)
        async with asyncio.timeout(SEEN_WITHIN):
            await self._caches.wait_seen(versions | deeds.versions)
        return self._again(entry.uid, notes, outcome, deeds, patience)

    def _patience(self, entry: Entry, outcome: Outcome) -> float:
        """What a job says of itself waits a moment for more, numbers alone longer."""
        scale = self._kind.scale_of(outcome.status)
        if scale is None or outcome.status.conditions != entry.status.conditions:
            return self._settle
        return self._settle * for_numbers(scale.current, scale.target or 0, outcome.status.phase, len(self._waiting))

    def _is_time(self, uid: str, outcome: Outcome, changed: bool, now: float, patience: float) -> bool:
        """Whether what may wait has waited long enough. The end of a job waits for nothing."""
        if not changed and not outcome.soft:
            self._waiting.pop(uid, None)
            return False
        return outcome.status.finished or now - self._waiting.setdefault(uid, now) >= patience

    async def _write_status(self, entry: Entry, outcome: Outcome, notes: Notes, now: float) -> int:
        metadata = entry.raw.metadata
        status = msgspec.to_builtins(outcome.status)
        patch = (replace("/metadata/resourceVersion", metadata.resource_version), add("/status", status))
        change = Change(self._kind.resource.kind, metadata.name, metadata.resource_version, patch, "status")
        deeds = await self._executor.carry_out([change], namespace=metadata.namespace, job_uid=entry.uid)
        self._waiting.pop(entry.uid, None)
        if outcome.status.reason != entry.status.reason:
            notes.worded_at = now
        self._tell(entry.raw, outcome.events)
        return deeds.versions[self._kind.resource]

    def _note(self, notes: Notes, deeds: Deeds, now: float) -> None:
        notes.succeed(deeds.made, unwatched=UNWATCHED)
        notes.refuse(deeds.refusals, now)

    def _again(self, uid: str, notes: Notes, outcome: Outcome, deeds: Deeds, patience: float) -> float | None:
        if deeds.refusals:
            return 0.0  # to say so in the status: nothing else will make us look again
        times = [outcome.wake, notes.next_expiry()]
        if uid in self._waiting:
            times.append(self._waiting[uid] + patience)
        soonest = min((when for when in times if when is not None), default=None)
        return None if soonest is None else max(0.0, soonest - self._clock())

    def _tell(self, raw: RawJob, events: tuple[JobEvent, ...]) -> None:
        if not events:
            return
        about = Reference.to(self._kind.resource, raw)
        for event in events:
            self._recorder.record(about, event.reason, event.message, kind=event.type, controller=self._kind.component)
        words = "; ".join(f"{event.reason}: {event.message}" for event in events)
        log.info("%s/%s: %s", about.namespace, about.name, words)
