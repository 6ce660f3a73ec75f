"""Pods of a workload controller: creation from a template, adoption and release, deletion, status writes."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import LabelSelector
from edl.api.kubernetes.pod_network import Pod
from edl.api.kubernetes.selectors import selector_matches
from edl.embedded.resources import PODS
from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import Object
from edl.kube.controllers.owners import owner_reference
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource


def pod_from_template(
    template: Mapping[str, Any], resource: Resource, owner: Object, *, name: str = "", labels: Mapping[str, str] = {}
) -> dict[str, Any]:
    """A pod of a template, owned by its controller; without a name the server gives it one."""
    meta = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "labels": {**(meta.get("labels") or {}), **labels},
        "annotations": dict(meta.get("annotations") or {}),
        "finalizers": list(meta.get("finalizers") or []),
        "namespace": owner.metadata.namespace,
        "ownerReferences": [owner_reference(resource, owner)],
    }
    metadata |= {"name": name} if name else {"generateName": f"{owner.metadata.name[:57]}-"}
    spec = msgspec.json.decode(msgspec.json.encode(template.get("spec") or {}))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def claim(
    client: Client, pods: Informer[Pod], resource: Resource, owner: Any, selector: LabelSelector
) -> list[Pod]:
    """The pods of a controller. Strays that match its selector are adopted; its own that no longer match are let go."""
    mine = pods.by("owner", owner.metadata.uid)
    kept = [pod for pod in mine if _is_controlled(pod, owner) and selector_matches(selector, pod.metadata.labels)]
    if owner.metadata.deletion_timestamp is not None:
        return kept
    for pod in mine:
        if _is_controlled(pod, owner) and pod not in kept and not pod.terminating:
            await _patch(client, pod, {"$patch": "delete", "uid": owner.metadata.uid})
    strays = [pod for pod in pods.by("namespace", owner.metadata.namespace) if pod.metadata.controller is None]
    for pod in strays:
        wanted = pod.active and selector_matches(selector, pod.metadata.labels)
        if wanted and await _patch(client, pod, owner_reference(resource, owner)):
            kept.append(pod)
    return kept


def _is_controlled(pod: Pod, owner: Object) -> bool:
    controller = pod.metadata.controller
    return controller is not None and controller.uid == owner.metadata.uid


async def _patch(client: Client, pod: Pod, reference: Mapping[str, Any]) -> bool:
    body = {"metadata": {"uid": pod.metadata.uid, "ownerReferences": [reference]}}
    try:
        await client.patch(PODS, pod.metadata.name, body, kind="strategic", namespace=pod.metadata.namespace)
    except ApiError as error:
        if error.is_not_found or error.is_conflict or error.is_invalid:
            return False
        raise
    return True


async def create_pods(client: Client, pods: Informer[Pod], bodies: Sequence[Mapping[str, Any]]) -> None:
    """Create, and wait until the cache has seen it: the next reconcile counts them. One refusal is raised after all are
    tried.
    """
    results = await asyncio.gather(*(_create(client, body) for body in bodies), return_exceptions=True)
    versions = [result for result in results if isinstance(result, int)]
    if versions:
        await pods.wait_seen(str(max(versions)))
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _create(client: Client, body: Mapping[str, Any]) -> int:
    """The version of what was created; 0 if a pod of this name is there already (the cache will show whose it is)."""
    try:
        made = await client.create(PODS, body, namespace=body["metadata"]["namespace"])
    except ApiError as error:
        if error.is_already_exists and "name" in body["metadata"]:
            return 0
        raise
    return int(made["metadata"]["resourceVersion"])


async def delete_pods(client: Client, pods: Informer[Pod], doomed: Iterable[Pod]) -> None:
    versions = await asyncio.gather(*(_delete(client, pod) for pod in doomed))
    if any(versions):
        await pods.wait_seen(str(max(versions)))


async def _delete(client: Client, pod: Pod) -> int:
    meta = pod.metadata
    try:
        answer = await client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
    except ApiError as error:
        if error.is_not_found or error.is_conflict:
            return 0
        raise
    return int(answer.get("metadata", {}).get("resourceVersion") or 0)


async def write_status(client: Client, cache: Informer[Any], item: Any, status: Mapping[str, Any]) -> None:
    """Write a status where it differs from what is there (None removes), and wait until the cache has it."""
    merged = {key: value for key, value in {**msgspec.to_builtins(item.status), **status}.items() if value is not None}
    if msgspec.convert(merged, type(item.status)) == item.status:
        return
    body = {"metadata": {"resourceVersion": item.metadata.resource_version, "uid": item.metadata.uid}, "status": status}
    written = await client.patch(
        cache.resource, item.metadata.name, body, namespace=item.metadata.namespace or None, subresource="status"
    )
    await cache.wait_seen(written["metadata"]["resourceVersion"])


def ready_for(pod: Pod, now: float) -> float:
    """Seconds since the pod became ready; -1 if it is not."""
    ready = pod.ready_condition
    if ready is None:
        return -1.0
    return now - timestamp.seconds(ready.last_transition_time) if ready.last_transition_time else 0.0
