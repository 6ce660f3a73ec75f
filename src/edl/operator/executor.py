"""Carries out intents. Every call is safe to be late or to be made twice, see `edl.jobs.intents`.

What the API server refuses for good reasons (quota, admission, a name that somebody has) is no error of ours: it is
handed back as a Refusal for the job's status, and the rest goes on. Anything else raises; the job is looked at again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from edl.api.core import Job, Pod, ReplicaSet, Secret, Service, StatefulSet
from edl.api.meta import ObjectMeta
from edl.jobs.children import LABEL_UID
from edl.jobs.intents import Change, Create, Delete, Intent
from edl.jobs.outcome import ObjectKey, Refusal
from edl.kube.client import Client
from edl.kube.errors import ApiError, KubeError
from edl.kube.resource import Resource
from edl.operator.resources import JOB_RESOURCES, JOBS, PODS, REPLICA_SETS, SECRETS, SERVICES, STATEFUL_SETS

RESIZE = "resize"
AT_ONCE = 2
"""Pods that are created at the same time, and deleted; so with Services.

The API server ends every watch that is some ten changes behind, and where all are busy a burst of new pods puts
everybody behind at once: scheduler, controllers and nodes then read all pods anew. Two at a time are still a hundred
a second.
"""

RESOURCES: Mapping[str, Resource] = {
    Pod.KIND: PODS,
    Service.KIND: SERVICES,
    Secret.KIND: SECRETS,
    ReplicaSet.KIND: REPLICA_SETS,
    StatefulSet.KIND: STATEFUL_SETS,
    Job.KIND: JOBS,
    JOB_RESOURCES.kind: JOB_RESOURCES,
}


class Written(msgspec.Struct):
    """An object as a write answered it: which version to wait for."""

    metadata: ObjectMeta = ObjectMeta()


class Deeds(msgspec.Struct):
    """What came of the intents. `versions`: per resource the newest version that our writes led to."""

    versions: dict[Resource, int] = {}
    made: set[ObjectKey] = set()
    refusals: list[Refusal] = []
    gone: set[ObjectKey] = set()

    def wrote(self, resource: Resource, version: str) -> None:
        if version:
            self.versions[resource] = max(self.versions.get(resource, 0), int(version))


class Executor:
    """`job` is where the jobs of the kind live: of two kinds called ElasticJob an intent means this one."""

    def __init__(self, client: Client, job: Resource) -> None:
        self._client = client
        self._resources = {**RESOURCES, job.kind: job}
        self._limits = defaultdict[tuple[type[Intent], str], asyncio.Semaphore](lambda: asyncio.Semaphore(AT_ONCE))

    async def carry_out(self, intents: Sequence[Intent], *, namespace: str, job_uid: str) -> Deeds:
        """In order; pods, which do not depend on each other, several at a time, and so with Services."""
        deeds = Deeds()
        for kind, group in groupby(intents, lambda intent: intent.kind):
            if kind in (Pod.KIND, Service.KIND):
                await self._together(list(group), namespace, job_uid, deeds)
            else:
                for intent in group:
                    await self._one(intent, namespace, job_uid, deeds)
        return deeds

    async def _together(self, intents: list[Intent], namespace: str, job_uid: str, deeds: Deeds) -> None:
        async def one(intent: Intent) -> None:
            async with self._limits[type(intent), intent.kind]:
                await self._one(intent, namespace, job_uid, deeds)

        results = await asyncio.gather(*map(one, intents), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _one(self, intent: Intent, namespace: str, job_uid: str, deeds: Deeds) -> None:
        if isinstance(intent, Create):
            await self._create(intent, namespace, job_uid, deeds)
        elif isinstance(intent, Change):
            await self._change(intent, namespace, deeds)
        else:
            await self._delete(intent, namespace, deeds)

    async def _change(self, intent: Change, namespace: str, deeds: Deeds) -> None:
        resource = self._resources[intent.kind]
        try:
            written = await self._client.patch(
                resource,
                intent.name,
                list(intent.patch),
                kind="json",
                namespace=namespace,
                subresource=intent.subresource,
                type=Written,
            )
        except ApiError as error:
            if intent.subresource != RESIZE or error.code not in (400, 403, 404, 422):
                raise  # there is another way to give a pod other resources, but none to change anything else
            deeds.refusals.append(Refusal(intent.kind, intent.name, error.reason, error.status.message))
        else:
            deeds.wrote(resource, written.metadata.resource_version)

    async def _create(self, intent: Create, namespace: str, job_uid: str, deeds: Deeds) -> None:
        try:
            written = await self._client.create(
                self._resources[intent.kind], intent.body, namespace=namespace, type=Written
            )
        except ApiError as error:
            if error.is_already_exists:
                await self._found(intent, namespace, job_uid, deeds)
            elif error.code in (400, 403, 422):
                deeds.refusals.append(Refusal(intent.kind, intent.name, error.reason, error.status.message))
            else:
                raise
        else:
            deeds.made.add((intent.kind, intent.name))
            deeds.wrote(self._resources[intent.kind], written.metadata.resource_version)

    async def _found(self, intent: Create, namespace: str, job_uid: str, deeds: Deeds) -> None:
        """The name is taken. By ourselves (a write whose answer was lost, or of our predecessor), or by another?"""
        try:
            found = await self._client.get(self._resources[intent.kind], intent.name, namespace=namespace, type=Written)
        except ApiError as error:
            if error.is_not_found:
                raise KeyGoneError(f"{intent.kind} {namespace}/{intent.name} was there and is not") from error
            raise
        if found.metadata.labels.get(LABEL_UID) == job_uid:
            deeds.made.add((intent.kind, intent.name))
            deeds.wrote(self._resources[intent.kind], found.metadata.resource_version)
            return
        words = f"{intent.kind} {intent.name} exists and belongs to somebody else"
        deeds.refusals.append(Refusal(intent.kind, intent.name, "ForeignObject", words, foreign=True))

    async def _delete(self, intent: Delete, namespace: str, deeds: Deeds) -> None:
        try:
            answer = await self._client.delete(
                self._resources[intent.kind], intent.name, namespace=namespace, uid=intent.uid
            )
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise
            deeds.gone.add((intent.kind, intent.name))  # this very one is gone, whoever bears the name now
        else:
            deeds.wrote(self._resources[intent.kind], _version(answer))


class KeyGoneError(KubeError):
    """Something changed between two calls; the next look will see."""


def _version(answer: Mapping[str, Any]) -> str:
    """Of the object that is being removed; an answer that only says that it is gone has none."""
    if answer.get("kind") == "Status":
        return ""
    return str(answer.get("metadata", {}).get("resourceVersion", ""))
