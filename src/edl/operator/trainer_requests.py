"""Answers what trainers ask for at the job service: their job's pods, and their plan as a JobResource.

The plan is written as the JobResource that has the job's name and belongs to it. One that is somebody else's is never
touched, and while the job follows an older one, a plan is refused.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from edl.api.kubernetes import quantity
from edl.api.kubernetes.core import Pod
from edl.api.kubernetes.pod import ResourceList
from edl.api.labels import LABEL_ATTEMPT, LABEL_INDEX, LABEL_JOB, LABEL_KIND, LABEL_ROLE, LABEL_UID, PLAN_REASON
from edl.api.schema.problem import errors
from edl.brain.tokens import mint
from edl.jobs.admission import check
from edl.jobs.core.pods.slots import read
from edl.jobs.registry import JOB_RESOURCE
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.trainer_calls import no_plans
from edl.operator.quota_capacity import within_quotas
from edl.operator.reconcile.caches import Caches
from edl.operator.reconcile.companion_cache import CompanionCache
from edl.operator.reconcile.job_cache import Entry, JobCache
from edl.operator.resources import JOB_RESOURCES, RawJob
from edl.operator.settings import BrainSettings
from edl.protocol.errors import ErrorCode
from edl.protocol.job_facts import OOM
from edl.protocol.plans import BrainAccess, ClusterCapacity, JobSpec, PlanStatus, PlanWritten, PostedPlan, SlotUpdate
from edl.protocol.pods import PodExit, PodReport, PodResources

Data = dict[str, Any]

TRIES = 5
SEEN_WITHIN = 5.0
TOKEN_SECONDS = 24 * 3600.0
MIB = float(2**20)


class TrainerRequestHandler:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        jobs: JobCache,
        *,
        gpu: str,
        brain: BrainSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._caches, self._jobs, self._gpu, self._clock = client, caches, jobs, gpu, clock
        self._brain = brain
        self._capacity: ClusterCapacity | None = None  # until the first cycle
        self._raw_plans = caches.companions[JOB_RESOURCE.crd_name]
        self._plans = CompanionCache(JOB_RESOURCE, self._raw_plans)

    def planned(self, capacity: Mapping[str, int]) -> None:
        """Takes the capacity that the scheduler planned with: millicores, bytes and devices of usable nodes."""
        cores, memory = capacity.get("cpu", 0) / 1000, capacity.get("memory", 0) >> 20
        self._capacity = ClusterCapacity(cores, memory, capacity.get(self._gpu, 0))

    def capacity(self, namespace: str) -> ClusterCapacity | None:
        return self._capacity and within_quotas(self._capacity, self._caches.quotas_of(namespace), self._gpu)

    def brain(self, namespace: str, name: str, record: JobRecord) -> BrainAccess | None:
        """The token lasts a while; a trainer whose token has expired asks again. It speaks for this job's uid alone."""
        if self._brain is None:
            return None
        token = mint(self._brain.key, f"{namespace}/{name}/{record.uid}", self._clock() + TOKEN_SECONDS)
        return BrainAccess(self._brain.url, token, self._brain.ca, self._brain.logs)

    def spec(self, namespace: str, name: str, record: JobRecord) -> JobSpec | None:
        """As the user wrote it."""
        entry = self._entry(namespace, name, record)
        raw = entry.raw if entry is not None else None
        return JobSpec(raw.spec, dict(raw.metadata.annotations)) if raw is not None else None

    def pods(self, namespace: str, name: str, record: JobRecord) -> list[PodReport]:
        entry = self._entry(namespace, name, record)
        if entry is None:
            return []
        found = sorted(self._caches.pods_of(entry.key, record.uid), key=lambda pod: pod.metadata.name)
        return [self._pod(pod, entry) for pod in found]

    def plan(self, namespace: str, name: str, record: JobRecord) -> PlanStatus | None:
        entry = self._entry(namespace, name, record)
        if entry is None or entry.kind.companion is None or entry.job is None:
            return None
        plan = entry.kind.companion.select(entry.job, self._plans.of(namespace, name))
        if plan is None:
            return PlanStatus()
        status = plan.status
        return PlanStatus(
            name=plan.metadata.name,
            generation=plan.metadata.generation,
            observed=status.observed_generation or 0,
            spec=_without_selector(msgspec.to_builtins(plan.spec)),
            followed=any(one.type == "Followed" and one.status == "True" for one in status.conditions),
            granted=status.granted or {},
            code=status.code,
            reason=status.reason,
            updates=[SlotUpdate(one.name, one.state, one.pod, one.reason) for one in status.updates],
        )

    async def post(self, namespace: str, name: str, record: JobRecord, posted: PostedPlan) -> PlanWritten:
        entry = self._entry(namespace, name, record)
        companion = entry.kind.companion if entry is not None else None
        if entry is None or companion is None or entry.job is None:
            raise no_plans(name)
        body = self._body(namespace, name, record, posted, entry)
        body["metadata"]["annotations"] |= companion.author_notes(_checked(body), posted.urgent)
        for _ in range(TRIES):
            plan = companion.select(entry.job, self._plans.of(namespace, name))
            if plan is not None and plan.metadata.name != name:
                other = plan.metadata.name
                raise RefusedError(
                    409, ErrorCode.RULED, f"JobResource {other} rules job {name}; delete it first", by=other
                )
            try:
                return await self._write(namespace, name, record, body)
            except ApiError as error:
                if not (error.is_conflict or error.is_already_exists or error.is_not_found):
                    raise
        raise RefusedError(503, ErrorCode.BUSY, f"JobResource {name} is being changed all the time", retry_after=1)

    def _entry(self, namespace: str, name: str, record: JobRecord) -> Entry | None:
        found = self._jobs.named(namespace, name)
        return next((entry for entry in found if entry.uid == record.uid), None)

    def _body(self, namespace: str, name: str, record: JobRecord, posted: PostedPlan, entry: Entry) -> Data:
        labels = {LABEL_JOB: name, LABEL_KIND: entry.kind.crd_name, LABEL_UID: record.uid}
        metadata: Data = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [record.owner]}
        spec = {**posted.spec, "selector": {"name": name}}
        metadata["annotations"] = {PLAN_REASON: posted.reason} if posted.reason else {}
        return {
            "apiVersion": JOB_RESOURCE.api_versions[0],
            "kind": JOB_RESOURCE.name,
            "metadata": metadata,
            "spec": spec,
        }

    async def _write(self, namespace: str, name: str, record: JobRecord, body: Data) -> PlanWritten:
        try:
            found = await self._client.get(JOB_RESOURCES, name, namespace=namespace, type=RawJob)
        except ApiError as error:
            if not error.is_not_found:
                raise
            made = await self._client.create(JOB_RESOURCES, body, namespace=namespace, type=RawJob)
            return await self._written(made, changed=True)
        _refuse_foreign(found, record, name)
        known = found.metadata.annotations.get(PLAN_REASON)
        if found.spec == body["spec"] and known == body["metadata"].get("annotations", {}).get(PLAN_REASON):
            return await self._written(found, changed=False)
        version = {"resourceVersion": found.metadata.resource_version}
        whole = {**body, "metadata": {**body["metadata"], **version}}
        made = await self._client.replace(JOB_RESOURCES, name, whole, namespace=namespace, type=RawJob)
        return await self._written(made, changed=True)

    async def _written(self, made: RawJob, *, changed: bool) -> PlanWritten:
        """Waits until the cache has it, so that the next GET /plan answers with this plan, not with the last one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WITHIN):
                await self._raw_plans.wait_seen(made.metadata.resource_version)
        return PlanWritten(made.metadata.name, made.metadata.generation, changed)

    def _pod(self, pod: Pod, entry: Entry) -> PodReport:
        labels, seen = pod.metadata.labels, read(pod, self._clock())
        role, index = labels.get(LABEL_ROLE, ""), labels.get(LABEL_INDEX, "")
        ended = seen.state in ("failed", "lost", "succeeded")
        address = entry.kind.address(entry.raw.metadata.name, role, int(index)) if index.isdigit() else ""
        return PodReport(
            name=pod.metadata.name,
            role=role,
            index=int(index) if index.isdigit() else 0,
            attempt=int(labels.get(LABEL_ATTEMPT, "0")),
            state=seen.state,
            ready=seen.ready,
            leaving=seen.leaving,
            node=seen.node,
            address=address,
            resources=self._resources(pod),
            started=seen.started,
            exit=PodExit(seen.exit_code, seen.reason, seen.message) if ended else None,
            oom=ended and seen.reason == OOM,
            reason="" if ended else seen.reason,
        )

    def _resources(self, pod: Pod) -> PodResources:
        first = pod.spec.containers[0].resources if pod.spec.containers else None
        given: ResourceList = {**first.limits, **first.requests} if first is not None else {}

        def amount(name: str, unit: float = 1.0) -> float | None:
            return quantity.nano(given[name]) / 1e9 / unit if name in given else None

        return PodResources(
            cpu=amount("cpu"),
            memory=amount("memory", MIB),
            disk=amount("ephemeral-storage", MIB),
            gpu=amount(self._gpu),
        )


def _checked(body: Data) -> Any:
    checked = check(body)
    if isinstance(checked.object, JOB_RESOURCE.type):
        return checked.object
    problems = [str(problem) for problem in errors(checked.problems)]
    raise RefusedError(400, ErrorCode.BAD_PLAN, "; ".join(problems)[:2000], problems=problems)


def _refuse_foreign(found: RawJob, record: JobRecord, name: str) -> None:
    owner = found.metadata.controller
    if owner is not None and owner.uid == record.uid and found.metadata.deletion_timestamp is None:
        return
    if owner is not None and (owner.kind, owner.name) == (record.owner.get("kind"), record.owner.get("name")):
        raise RefusedError(
            503, ErrorCode.LEFTOVER, f"JobResource {name} of an earlier job is being removed", retry_after=1
        )
    message = f"JobResource {name} was not made for this job by its trainer, and is left alone; delete it, or edit it"
    raise RefusedError(409, ErrorCode.NAME_TAKEN, message)


def _without_selector(spec: Any) -> Data:
    return {field: value for field, value in spec.items() if field != "selector"}
