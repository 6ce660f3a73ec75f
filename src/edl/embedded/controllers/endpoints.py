"""EndpointSlice controller: publishes the pods behind a Service, and which of them are ready."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from edl.api.kubernetes import cluster
from edl.api.kubernetes.meta import ObjectMeta, Wire
from edl.api.kubernetes.pod_network import Pod
from edl.api.kubernetes.selectors import labels_match
from edl.embedded.controllers.caches import Caches
from edl.embedded.resources import ENDPOINT_SLICES, SERVICES
from edl.kube.cache.objects import Key
from edl.kube.controllers.controller import Controller, Source
from edl.kube.controllers.owners import owner_reference
from edl.kube.rest.errors import ApiError

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS_LABEL = "service.kubernetes.io/headless"
_LARGEST = 1000
_BATCH_SECONDS = 0.1


class ServicePort(cluster.ServicePort, frozen=True):
    protocol: str = "TCP"
    target_port: int | str | None = None
    app_protocol: str | None = None


class ServiceSpec(cluster.ServiceSpec, frozen=True):
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False


class Service(cluster.Service, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class Slice(Wire, frozen=True):
    """Compared as plain data with what is wanted."""

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Mapping[str, Any], ...] | None = None
    ports: tuple[Mapping[str, Any], ...] | None = None


class Endpoints:
    def __init__(self, caches: Caches) -> None:
        self._client = caches.client
        self._services = caches.of(SERVICES, Service)
        self._slices = caches.of(ENDPOINT_SLICES, Slice)
        self._pods = caches.pods
        self._written: dict[Key, float] = {}

    def controller(self) -> Controller:
        sources: list[Source[Any]] = [
            Source(self._services),
            Source(self._pods, self._services_of),
            Source(self._slices, _service_of),
        ]
        return Controller("endpointslice", sources, self.reconcile)

    def _services_of(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        if old is not None and new is not None and _seen(old) == _seen(new):
            return []
        found: dict[Key, None] = {}
        for pod in (old, new):
            for service in self._services.by("namespace", pod.metadata.namespace) if pod is not None else ():
                if pod is not None and _selects(service, pod):
                    found[service.metadata.namespace, service.metadata.name] = None
        return found

    async def reconcile(self, key: Key) -> float | None:
        service = self._services.get(key)
        now = asyncio.get_running_loop().time()
        if service is None or not service.spec.selector or service.spec.type == "ExternalName":
            self._written.pop(key, None)
            return None
        wait = self._written.get(key, -_BATCH_SECONDS) + _BATCH_SECONDS - now
        if wait > 0:  # pods come in crowds: take them together
            return wait
        pods = [pod for pod in self._pods.by("namespace", key[0]) if _selects(service, pod)]
        wanted = slices_of(service, pods)
        mine = {one.metadata.name: one for one in self._slices.by("owner", service.metadata.uid)}
        for name, body in wanted.items():
            await self._write(service, mine.get(name), name, body)
        for name in mine.keys() - wanted.keys():
            await self._delete(mine[name])
        self._written[key] = now
        return None

    async def _write(self, service: Service, known: Slice | None, name: str, body: dict[str, Any]) -> None:
        meta = service.metadata
        if known is None:
            made = await self._create(service, name, body)
        elif _same(known, body):
            return
        else:
            patch = {**body, "metadata": {"uid": known.metadata.uid, "labels": _labels(service)}}
            made = await self._client.patch(ENDPOINT_SLICES, name, patch, namespace=meta.namespace)
        if made is not None:
            await self._slices.wait_seen(made["metadata"]["resourceVersion"])

    async def _create(self, service: Service, name: str, body: dict[str, Any]) -> dict[str, Any] | None:
        meta = {
            "name": name,
            "namespace": service.metadata.namespace,
            "labels": _labels(service),
            "ownerReferences": [owner_reference(SERVICES, service)],
        }
        full = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": meta, **body}
        try:
            return await self._client.create(ENDPOINT_SLICES, full, namespace=service.metadata.namespace)
        except ApiError as error:
            if error.is_already_exists or error.is_not_found:  # the cache is late, or the namespace goes
                return None
            raise

    async def _delete(self, one: Slice) -> None:
        try:
            await self._client.delete(
                ENDPOINT_SLICES, one.metadata.name, namespace=one.metadata.namespace, uid=one.metadata.uid
            )
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise


def slices_of(service: Service, pods: Iterable[Pod]) -> dict[str, dict[str, Any]]:
    """Name and body of every slice: one per set of port numbers (a named port may differ from pod to pod)."""
    groups: dict[bytes, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if not pod.status.pod_ip or pod.finished:
            continue
        ports = _ports(service, pod)
        groups.setdefault(msgspec.json.encode(ports), (ports, []))[1].append(_endpoint(service, pod))
    if not groups:
        groups[b""] = ([], [])
    found: dict[str, dict[str, Any]] = {}
    for code, (ports, endpoints) in groups.items():
        for start in range(0, max(len(endpoints), 1), _LARGEST):
            name = _name(service, code if len(groups) > 1 else b"", start // _LARGEST)
            found[name] = {"addressType": "IPv4", "endpoints": endpoints[start : start + _LARGEST], "ports": ports}
    return found


def _name(service: Service, ports: bytes, number: int) -> str:
    seed = f"{service.metadata.uid}/{number}/".encode() + ports
    return f"{service.metadata.name}-{hashlib.sha256(seed).hexdigest()[:5]}"


def _endpoint(service: Service, pod: Pod) -> dict[str, Any]:
    published = service.spec.publish_not_ready_addresses
    conditions = {
        "ready": published or (pod.ready and not pod.terminating),
        "serving": published or pod.ready,
        "terminating": pod.terminating,
    }
    reference = {"kind": "Pod", "namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": pod.metadata.uid}
    endpoint: dict[str, Any] = {"addresses": [pod.status.pod_ip], "conditions": conditions, "targetRef": reference}
    if pod.spec.node_name:
        endpoint["nodeName"] = pod.spec.node_name
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        endpoint["hostname"] = pod.spec.hostname
    return endpoint


def _ports(service: Service, pod: Pod) -> list[dict[str, Any]]:
    ports = []
    for port in service.spec.ports:
        target = _target(port, pod)
        if target is not None:
            more = {"appProtocol": port.app_protocol} if port.app_protocol else {}
            ports.append({"name": port.name, "port": target, "protocol": port.protocol, **more})
    return ports


def _target(port: ServicePort, pod: Pod) -> int | None:
    target = port.target_port
    if target is None or target == 0:
        return port.port
    if isinstance(target, int) or target.isdigit():
        return int(target)
    named = (one for container in pod.spec.containers for one in container.ports if one.name == target)
    return next((one.container_port for one in named if one.protocol == port.protocol), None)


def _labels(service: Service) -> dict[str, str]:
    own = {SERVICE_LABEL: service.metadata.name, MANAGED_LABEL: MANAGER}
    headless = {HEADLESS_LABEL: ""} if service.spec.cluster_ip == "None" else {}
    return {**service.metadata.labels, **own, **headless}


def _same(known: Slice, body: Mapping[str, Any]) -> bool:
    return bool([*(known.endpoints or ())] == body["endpoints"] and [*(known.ports or ())] == body["ports"])


def _selects(service: Service, pod: Pod) -> bool:
    selector = service.spec.selector
    return bool(selector) and labels_match(selector, pod.metadata.labels)


def _seen(pod: Pod) -> tuple[object, ...]:
    """The part of a pod that its endpoint publishes."""
    spec = pod.spec
    labels = tuple(sorted(pod.metadata.labels.items()))
    return pod.metadata.uid, labels, pod.status.pod_ip, pod.ready, pod.finished, pod.terminating, spec.node_name


def _service_of(old: Slice | None, new: Slice | None) -> Iterable[Key]:
    return {
        (one.metadata.namespace, one.metadata.labels[SERVICE_LABEL]): None
        for one in (old, new)
        if one is not None
        and one.metadata.labels.get(MANAGED_LABEL) == MANAGER
        and SERVICE_LABEL in one.metadata.labels
    }
