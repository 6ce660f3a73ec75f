"""Says in a JobResource's status what its job's own look cannot say: that it is refused, or that there is no job."""

import asyncio
import time
from collections.abc import Callable

import msgspec

from edl.api.job_resource import KIND, JobResource
from edl.jobs.children import change
from edl.jobs.easydl_plan_status import Verdict, no_such_job, refused_spec, told
from edl.jobs.intents import Change, add
from edl.kube.client import Client
from edl.kube.objects import Key
from edl.operator.book import JobBook
from edl.operator.caches import Caches
from edl.operator.executor import Executor
from edl.operator.kinds import EASYDL, JobKey
from edl.operator.plans import BY_JOB, PlanBook, PlanEntry
from edl.operator.resources import JOB_RESOURCES, RawJob

SEEN_WITHIN = 10.0


class PlanReconciler:
    def __init__(
        self, client: Client, caches: Caches, book: JobBook, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._caches, self._book, self._clock = caches, book, clock
        self._plans = PlanBook(caches.plans)
        self._executor = Executor(client, JOB_RESOURCES)

    async def __call__(self, key: Key) -> float | None:
        entry = self._plans.entry(key)
        if entry is None or entry.raw.metadata.deletion_timestamp is not None:
            return None
        wanted = self._refused(entry) if entry.plan is None else self._jobless(entry.plan)
        if wanted is not None:
            deeds = await self._executor.carry_out([wanted], namespace=key[0], job_uid="")
            async with asyncio.timeout(SEEN_WITHIN):
                await self._caches.wait_seen(deeds.versions)
        return None

    def named_by(self, old: RawJob | None, new: RawJob | None) -> set[Key]:
        """The plans that a change of a job concerns."""
        items = (item for item in (old, new) if item is not None)
        keys = {(item.metadata.namespace, item.metadata.name) for item in items}
        found = (plan for namespace, name in keys for plan in self._caches.plans.by(BY_JOB, name))
        spaces = {namespace for namespace, _ in keys}
        return {(plan.metadata.namespace, plan.metadata.name) for plan in found if plan.metadata.namespace in spaces}

    def _refused(self, entry: PlanEntry) -> Change | None:
        raw = entry.raw
        status = refused_spec(entry.status, entry.refused, raw.metadata.generation, self._clock())
        if status == entry.status:
            return None
        return change(KIND, raw, [add("/status", msgspec.to_builtins(status))], subresource="status")

    def _jobless(self, plan: JobResource) -> Change | None:
        """A job that is there and valid speaks for itself."""
        name = plan.spec.selector.name
        job = self._book.entry(JobKey(EASYDL.name, plan.metadata.namespace, name))
        if job is not None and job.job is not None:
            return None
        words = f"waits until ElasticJob {name} is mended: its spec is refused"
        verdict = no_such_job(plan) if job is None else Verdict(False, "JobRefused", words)
        return told(plan, verdict, self._clock())
