"""Deployment: rolls a ReplicaSet per generation of its template forward, and keeps the old ones for `rollout undo`."""

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from edl.api.kubernetes.core import without_nulls
from edl.embedded.controllers.caches import Caches
from edl.embedded.controllers.deployment_status import status_of
from edl.embedded.controllers.pods import write_status
from edl.embedded.controllers.rollout import Generation, budget, recreate, roll, spread
from edl.embedded.controllers.types import Deployment, ReplicaSet
from edl.embedded.resources import DEPLOYMENTS, REPLICA_SETS
from edl.kube.cache.objects import Key
from edl.kube.controllers.controller import Controller, Source, owner_key
from edl.kube.controllers.owners import is_controlled_by, owner_reference
from edl.kube.rest.errors import ApiError

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_NOT_COPIED = (REVISION, "kubectl.kubernetes.io/last-applied-configuration")


class Deployments:
    def __init__(self, caches: Caches, *, clock: Callable[[], float] = time.time) -> None:
        self._client = caches.client
        self._deployments = caches.of(DEPLOYMENTS, Deployment)
        self._sets = caches.of(REPLICA_SETS, ReplicaSet)
        self._clock = clock

    def controller(self) -> Controller:
        sources: list[Source[Any]] = [
            Source(self._deployments),
            Source(self._sets, owner_key("Deployment", "apps")),
        ]
        return Controller("deployment", sources, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        wanted = self._deployments.get(key)
        if wanted is None or wanted.metadata.deletion_timestamp is not None:
            return None
        sets = [one for one in self._sets.by("owner", wanted.metadata.uid) if is_controlled_by(one, wanted)]
        sets = [one for one in sets if one.metadata.deletion_timestamp is None]
        new = next((one for one in sorted(sets, key=_age) if _same_template(one, wanted)), None)
        if new is None and not wanted.spec.paused:
            new = await self._create(wanted, sets)
            sets.append(new)
        elif new is not None:
            new = await self._keep_revision(wanted, new, sets)
        await self._resize(wanted, new, sets)
        await self._clean_up(wanted, new, sets)
        fresh = self._deployments.get(key)
        if fresh is None or fresh.metadata.uid != wanted.metadata.uid:
            return None
        status, again = status_of(fresh, new, sets, now=self._clock())
        await write_status(self._client, self._deployments, fresh, status)
        return again

    async def _create(self, wanted: Deployment, sets: list[ReplicaSet]) -> ReplicaSet:
        template = _builtin(wanted.spec.template)
        code = template_hash(template)
        meta = template.setdefault("metadata", {})
        meta["labels"] = {**(meta.get("labels") or {}), HASH_LABEL: code}
        selector = msgspec.to_builtins(wanted.spec.selector)
        selector["matchLabels"] = {**selector.get("matchLabels", {}), HASH_LABEL: code}
        revision = str(_newest_revision(sets) + 1)
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{wanted.metadata.name}-{code}",
                "namespace": wanted.metadata.namespace,
                "labels": meta["labels"],
                "annotations": {**_annotations(wanted), REVISION: revision},
                "ownerReferences": [owner_reference(DEPLOYMENTS, wanted)],
            },
            "spec": {
                "replicas": 0,
                "selector": selector,
                "template": template,
                "minReadySeconds": wanted.spec.min_ready_seconds,
            },
        }
        made = await self._client.create(REPLICA_SETS, body, namespace=wanted.metadata.namespace, type=ReplicaSet)
        await self._note_revision(wanted, revision)
        await self._sets.wait_seen(made.metadata.resource_version)
        return made

    async def _keep_revision(self, wanted: Deployment, new: ReplicaSet, sets: list[ReplicaSet]) -> ReplicaSet:
        """A ReplicaSet that is rolled back to becomes the newest revision again."""
        newest = _newest_revision([one for one in sets if one is not new])
        revision = _revision(new) if _revision(new) > newest else newest + 1
        annotations = {**_annotations(wanted), REVISION: str(revision)}
        if not annotations.items() <= new.metadata.annotations.items():
            patch = {"metadata": {"annotations": annotations}}
            new = await self._client.patch(
                REPLICA_SETS, new.metadata.name, patch, namespace=new.metadata.namespace, type=ReplicaSet
            )
        await self._note_revision(wanted, str(revision))
        return new

    async def _note_revision(self, wanted: Deployment, revision: str) -> None:
        if wanted.metadata.annotations.get(REVISION) != revision:
            patch = {"metadata": {"uid": wanted.metadata.uid, "annotations": {REVISION: revision}}}
            noted = await self._client.patch(
                DEPLOYMENTS, wanted.metadata.name, patch, namespace=wanted.metadata.namespace
            )
            await self._deployments.wait_seen(noted["metadata"]["resourceVersion"])

    async def _resize(self, wanted: Deployment, new: ReplicaSet | None, sets: list[ReplicaSet]) -> None:
        old = [one for one in sorted(sets, key=_age) if new is None or one.metadata.uid != new.metadata.uid]
        sizes = _sizes(wanted, new, old)
        for one in (*([new] if new is not None else []), *old):
            size = sizes.get(one.metadata.name, one.spec.replicas)
            if size != one.spec.replicas:
                await self._scale(one, size)

    async def _scale(self, one: ReplicaSet, size: int) -> None:
        patch = {"metadata": {"uid": one.metadata.uid}, "spec": {"replicas": size}}
        scaled = await self._client.patch(
            REPLICA_SETS, one.metadata.name, patch, namespace=one.metadata.namespace, type=ReplicaSet
        )
        await self._sets.wait_seen(scaled.metadata.resource_version)

    async def _clean_up(self, wanted: Deployment, new: ReplicaSet | None, sets: list[ReplicaSet]) -> None:
        """Of the generations that are out of use, only so many are kept."""
        unused = [
            one
            for one in sets
            if (new is None or one.metadata.uid != new.metadata.uid)
            and not one.spec.replicas
            and not one.status.replicas
        ]
        unused.sort(key=_revision)
        for one in unused[: max(0, len(unused) - wanted.spec.revision_history_limit)]:
            meta = one.metadata
            try:
                await self._client.delete(REPLICA_SETS, meta.name, namespace=meta.namespace, uid=meta.uid)
            except ApiError as error:
                if not error.is_not_found:
                    raise


def _sizes(wanted: Deployment, new: ReplicaSet | None, old: list[ReplicaSet]) -> Mapping[str, int]:
    desired, strategy = wanted.spec.replicas, wanted.spec.strategy
    if new is None or wanted.spec.paused:
        return spread([_generation(one) for one in (*([new] if new else []), *old)], desired)
    if strategy.type == "Recreate":
        return recreate(_generation(new), [_generation(one) for one in old], desired)
    surge, unavailable = budget(strategy.rolling_update.max_surge, strategy.rolling_update.max_unavailable, desired)
    olds = [_generation(one) for one in old]
    return roll(_generation(new), olds, desired, surge=surge, unavailable=unavailable)


def _generation(one: ReplicaSet) -> Generation:
    """A status of an earlier generation of the ReplicaSet does not count: its pods may not be what it wants now."""
    fresh = one.status.observed_generation >= one.metadata.generation
    available = one.status.available_replicas if fresh else min(one.status.available_replicas, one.spec.replicas)
    return Generation(one.metadata.name, one.spec.replicas, one.status.replicas, available)


def _same_template(one: ReplicaSet, wanted: Deployment) -> bool:
    """Compared without the hash that we added, and without what the server fills in."""
    return one.metadata.labels.get(HASH_LABEL) == template_hash(_builtin(wanted.spec.template))


def template_hash(template: Mapping[str, Any]) -> str:
    """Short and stable; of Kubernetes' safe alphabet, which cannot spell anything."""
    digest = hashlib.sha256(msgspec.json.encode(without_nulls(template), order="sorted")).digest()
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:10])


def _builtin(template: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(template))
    return copied


def _annotations(wanted: Deployment) -> dict[str, str]:
    return {key: value for key, value in wanted.metadata.annotations.items() if key not in _NOT_COPIED}


def _revision(one: ReplicaSet) -> int:
    text = one.metadata.annotations.get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _newest_revision(sets: list[ReplicaSet]) -> int:
    return max((_revision(one) for one in sets), default=0)


def _age(one: ReplicaSet) -> tuple[str, str]:
    return one.metadata.creation_timestamp or "", one.metadata.name
