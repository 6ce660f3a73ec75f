"""Reconciles companions of jobs: reports in their status what the job's own reconcile cannot, that one is refused or
that there is no such job.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from edl.jobs.core.actions import Change, add
from edl.jobs.core.children import change
from edl.jobs.core.kind import Companion, JobKind
from edl.kube.cache.objects import Key
from edl.kube.rest.client import Client
from edl.operator.reconcile.action_runner import ActionRunner
from edl.operator.reconcile.caches import Caches
from edl.operator.reconcile.companion_cache import BY_JOB, CompanionCache, CompanionEntry
from edl.operator.reconcile.job_cache import JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.operator.resources import RawJob, resource_of

SEEN_WITHIN = 10.0


class CompanionReconciler:
    """For the companions of jobs of one kind."""

    def __init__(
        self,
        kind: JobKind,
        companion: Companion,
        client: Client,
        caches: Caches,
        jobs: JobCache,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kind, self._companion = kind, companion
        self._caches, self._jobs, self._clock = caches, jobs, clock
        self._raw = caches.companions[companion.kind.crd_name]
        self._companions = CompanionCache(companion.kind, self._raw)
        self._runner = ActionRunner(client, resource_of(companion.kind))

    async def __call__(self, key: Key) -> float | None:
        entry = self._companions.entry(key)
        if entry is None or entry.raw.metadata.deletion_timestamp is not None:
            return None
        wanted = self._refused(entry) if entry.companion is None else self._without_job(key, entry.companion)
        if wanted is not None:
            results = await self._runner.run([wanted], namespace=key[0])
            async with asyncio.timeout(SEEN_WITHIN):
                await self._caches.wait_seen(results.versions)
        return None

    def named_by(self, old: RawJob | None, new: RawJob | None) -> set[Key]:
        """The companions that a change of a job concerns."""
        items = (item for item in (old, new) if item is not None)
        keys = {(item.metadata.namespace, item.metadata.name) for item in items}
        found = (one for _, name in keys for one in self._raw.by(BY_JOB, name))
        spaces = {namespace for namespace, _ in keys}
        return {(one.metadata.namespace, one.metadata.name) for one in found if one.metadata.namespace in spaces}

    def _refused(self, entry: CompanionEntry) -> Change | None:
        raw, kind = entry.raw, self._companion.kind
        status = self._companion.refused(entry.status, entry.refused, raw.metadata.generation, self._clock())
        if status == entry.status:
            return None
        return change(kind.name, raw, [add("/status", msgspec.to_builtins(status))], subresource="status")

    def _without_job(self, key: Key, companion: Any) -> Change | None:
        """A job that is there and valid speaks for itself."""
        name = self._companion.names_job(msgspec.to_builtins(companion.spec))
        job = self._jobs.entry(JobKey(self._kind.crd_name, key[0], name))
        if job is not None and job.job is not None:
            return None
        return self._companion.without_job(companion, job is not None, self._clock())
