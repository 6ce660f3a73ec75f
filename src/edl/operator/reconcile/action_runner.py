"""Runs actions. Every call is safe to be late or to be made twice, see `edl.jobs.core.actions`.

What the API server refuses for good reasons (quota, admission, a name that somebody has) is no error of ours: it is
handed back as a Refusal for the job's status, and the rest goes on. Anything else raises; the job is reconciled again.
"""

import asyncio
import base64
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from edl.api.kubernetes.core import Job, Pod, ReplicaSet, Secret, Service, StatefulSet
from edl.api.kubernetes.meta import ObjectMeta
from edl.jobs.core.actions import Action, Change, Create, Delete
from edl.jobs.core.outcome import ObjectKey, Refusal
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, KubeError
from edl.kube.rest.resource import Resource
from edl.operator.resources import JOBS, PODS, REPLICA_SETS, SECRETS, SERVICES, STATEFUL_SETS

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
}


class Written(msgspec.Struct):
    """An object as a write answered it: which version to wait for."""

    metadata: ObjectMeta = ObjectMeta()


class ActionResults(msgspec.Struct):
    """Results of running actions. `versions`: per resource the newest version that our writes led to."""

    versions: dict[Resource, int] = {}
    made: set[ObjectKey] = set()
    refusals: list[Refusal] = []
    gone: set[ObjectKey] = set()

    def wrote(self, resource: Resource, version: str) -> None:
        if version:
            self.versions[resource] = max(self.versions.get(resource, 0), int(version))


class ActionRunner:
    """`own`: where jobs of the kind and their companions live; of two kinds called ElasticJob it tells which."""

    def __init__(self, client: Client, *own: Resource) -> None:
        self._client = client
        self._resources = {**RESOURCES, **{resource.kind: resource for resource in own}}
        self._limits = defaultdict[tuple[type[Action], str], asyncio.Semaphore](lambda: asyncio.Semaphore(AT_ONCE))

    async def run(self, actions: Sequence[Action], *, namespace: str) -> ActionResults:
        """In order; pods, which do not depend on each other, several at a time, and so with Services."""
        results = ActionResults()
        for kind, group in groupby(actions, lambda action: action.kind):
            if kind in (Pod.KIND, Service.KIND):
                await self._together(list(group), namespace, results)
            else:
                for action in group:
                    await self._one(action, namespace, results)
        return results

    async def _together(self, actions: list[Action], namespace: str, results: ActionResults) -> None:
        async def one(action: Action) -> None:
            async with self._limits[type(action), action.kind]:
                await self._one(action, namespace, results)

        ended = await asyncio.gather(*map(one, actions), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def _one(self, action: Action, namespace: str, results: ActionResults) -> None:
        if isinstance(action, Create):
            await self._create(action, namespace, results)
        elif isinstance(action, Change):
            await self._change(action, namespace, results)
        else:
            await self._delete(action, namespace, results)

    async def _change(self, action: Change, namespace: str, results: ActionResults) -> None:
        resource = self._resources[action.kind]
        try:
            written = await self._client.patch(
                resource,
                action.name,
                list(action.patch),
                kind="json",
                namespace=namespace,
                subresource=action.subresource,
                type=Written,
            )
        except ApiError as error:
            if action.subresource != RESIZE or error.code not in (400, 403, 404, 422):
                raise  # there is another way to give a pod other resources, but none to change anything else
            results.refusals.append(Refusal(action.kind, action.name, error.reason, error.status.message))
        else:
            results.wrote(resource, written.metadata.resource_version)

    async def _create(self, action: Create, namespace: str, results: ActionResults) -> None:
        try:
            written = await self._client.create(
                self._resources[action.kind], action.body, namespace=namespace, type=Written
            )
        except ApiError as error:
            if error.is_already_exists:
                await self._found(action, namespace, results)
            elif error.code in (400, 403, 422):
                results.refusals.append(Refusal(action.kind, action.name, error.reason, error.status.message))
            else:
                raise
        else:
            results.made.add((action.kind, action.name))
            results.wrote(self._resources[action.kind], written.metadata.resource_version)

    async def _found(self, action: Create, namespace: str, results: ActionResults) -> None:
        """The name is taken. By ourselves (a write whose answer was lost, or of our predecessor), or by another?"""
        read = self._renew_secret if action.kind == Secret.KIND else self._read
        try:
            found = await read(action, namespace)
        except ApiError as error:
            if error.is_not_found:
                raise KeyGoneError(f"{action.kind} {namespace}/{action.name} was there and is not") from error
            raise
        if found is not None and _is_controlled(found.metadata, action.body):
            results.made.add((action.kind, action.name))
            results.wrote(self._resources[action.kind], found.metadata.resource_version)
            return
        message = f"{action.kind} {action.name} exists and belongs to somebody else"
        results.refusals.append(Refusal(action.kind, action.name, "ForeignObject", message, foreign=True))

    async def _read(self, action: Create, namespace: str) -> Written | None:
        return await self._client.get(self._resources[action.kind], action.name, namespace=namespace, type=Written)

    async def _renew_secret(self, action: Create, namespace: str) -> Written | None:
        """Secrets are not read: a patch on condition that it is ours tells that it is, and makes it say what it should,
        in case that key or authority were replaced since. None if it is somebody else's."""
        patch = _secret_patch(action.body)
        try:
            return await self._client.patch(SECRETS, action.name, patch, kind="json", namespace=namespace, type=Written)
        except ApiError as error:
            if error.is_forbidden:  # with the permissions of an earlier version, which could read it
                return await self._read(action, namespace)
            if error.code == 422:  # by the condition, or by the admission policy of the operator's account
                return None
            raise

    async def _delete(self, action: Delete, namespace: str, results: ActionResults) -> None:
        try:
            answer = await self._client.delete(
                self._resources[action.kind], action.name, namespace=namespace, uid=action.uid
            )
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise
            results.gone.add((action.kind, action.name))  # this very one is gone, whoever bears the name now
        else:
            results.wrote(self._resources[action.kind], _version(answer))


class KeyGoneError(KubeError):
    """Something changed between two calls; the next reconcile will see."""


def _is_controlled(found: ObjectMeta, wanted: Mapping[str, Any]) -> bool:
    """Whether it has the controller that we were about to give it: a label would not prove that it is ours."""
    owners = wanted["metadata"].get("ownerReferences") or ()
    uids = [owner["uid"] for owner in owners if owner.get("controller")]
    return found.controller is not None and found.controller.uid in uids


def _secret_patch(wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is immutable is named after what it says: then it is only looked at."""
    owned = {"op": "test", "path": "/metadata/ownerReferences/0/uid"}
    owned["value"] = wanted["metadata"]["ownerReferences"][0]["uid"]
    if wanted.get("immutable"):
        return [owned]
    said = {name: base64.b64encode(text.encode()).decode() for name, text in wanted["stringData"].items()}
    return [owned, {"op": "add", "path": "/data", "value": said}]


def _version(answer: Mapping[str, Any]) -> str:
    """Of the object that is being removed; an answer that only says that it is gone has none."""
    if answer.get("kind") == "Status":
        return ""
    return str(answer.get("metadata", {}).get("resourceVersion", ""))
