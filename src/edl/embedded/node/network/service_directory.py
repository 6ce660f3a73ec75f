"""Cache of services and their ready endpoints, for all nodes of this process: names, variables, forwarding."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

from edl.api.kubernetes import cluster
from edl.api.kubernetes.meta import EMPTY, Wire
from edl.embedded.node.network.addresses import AddressPool
from edl.embedded.node.network.hosts_file import ServiceNames, service_lines, service_variables, shared_text
from edl.embedded.node.network.service_proxy import Address, Forwarder
from edl.embedded.resources import ENDPOINT_SLICES, SERVICES
from edl.kube.cache.indexes import by_label
from edl.kube.cache.informer import Informer
from edl.kube.rest.client import Client

log = logging.getLogger(__name__)

SERVICE_LABEL = "kubernetes.io/service-name"
_SECONDS = 0.1
_RETRY_SECONDS = 5.0


class _ServicePort(cluster.ServicePort, frozen=True):
    protocol: str = "TCP"


class _ServiceSpec(cluster.ServiceSpec, frozen=True):
    ports: tuple[_ServicePort, ...] = ()


class _Service(cluster.Service, frozen=True):
    spec: _ServiceSpec = _ServiceSpec()


class _Conditions(Wire, frozen=True):
    ready: bool | None = None


class _Endpoint(cluster.Endpoint, frozen=True):
    hostname: str = ""
    conditions: _Conditions = _Conditions()


class _Slice(cluster.EndpointSlice, frozen=True):
    endpoints: tuple[_Endpoint, ...] | None = None

    def ready(self) -> Iterable[_Endpoint]:
        """An endpoint that says nothing of its readiness is ready."""
        return (one for one in self.endpoints or () if one.conditions.ready is not False and one.addresses)


class ServiceDirectory:
    """Complete once `running` is entered. Listeners are called when names change, at most ten times a second."""

    def __init__(self, client: Client, addresses: AddressPool) -> None:
        self._services: Informer[_Service] = Informer(client, SERVICES, _Service)
        self._slices: Informer[_Slice] = Informer(
            client, ENDPOINT_SLICES, _Slice, indexes={"service": by_label(SERVICE_LABEL)}
        )
        self._addresses = addresses
        self._own_addresses: dict[str, str] = {}
        self._forwarder = Forwarder()
        self._lines: dict[str, tuple[list[str], list[str]]] = {}
        self._texts: dict[str, str] = {}
        self._variables: dict[str, dict[str, str]] = {}
        self._dirty = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        for informer in (self._services, self._slices):
            informer.add_handler("directory", lambda old, new: [""], lambda _: self._dirty.set())
        tasks = [
            asyncio.create_task(self._services.run(), name="services"),
            asyncio.create_task(self._slices.run(), name="endpointslices"),
        ]
        await self._services.wait_synced()
        await self._slices.wait_synced()
        tasks.append(asyncio.create_task(self._follow(), name="service directory"))
        try:
            await self._refresh()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._forwarder.close()

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def hosts(self, namespace: str) -> str:
        """The lines of /etc/hosts that name services, as seen from a namespace."""
        if namespace not in self._texts:
            self._texts[namespace] = shared_text(self._lines, namespace)
        return self._texts[namespace]

    def variables(self, namespace: str) -> Mapping[str, str]:
        return self._variables.get(namespace, EMPTY)

    def forwarded(self) -> Iterable[Address]:
        """Addresses at which connections to services are accepted."""
        return self._forwarder.listening

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            begin = loop.time()
            try:
                await self._refresh()
            except Exception:
                log.exception("the directory of services could not be refreshed")
            await asyncio.sleep(max(_SECONDS, 5 * (loop.time() - begin)))

    async def _refresh(self) -> None:
        named: list[ServiceNames] = []
        forwards: dict[Address, list[Address]] = {}
        variables: dict[str, list[tuple[str, str, list[tuple[str, int]]]]] = defaultdict(list)
        for service in self._services.all():
            meta = service.metadata
            slices = [one for one in self._slices.by("service", meta.name) if one.metadata.namespace == meta.namespace]
            address = self._address(service)
            ends = tuple((end.addresses[0], end.hostname) for one in slices for end in one.ready())
            named.append(ServiceNames(meta.namespace, meta.name, address, ends))
            if address:
                forwards |= _forwards(service, address, slices)
                ports = [(port.name, port.port) for port in service.spec.ports]
                variables[meta.namespace].append((meta.name, address, ports))
        self._forget_addresses({service.metadata.uid for service in self._services.all()})
        self._lines = service_lines(named)
        self._texts = {}
        self._variables = {namespace: service_variables(links) for namespace, links in variables.items()}
        if not await self._forwarder.reconcile(forwards):
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._dirty.set)
        for listener in self._listeners:
            listener()

    def _address(self, service: _Service) -> str:
        """Where the service listens: its own address if that is one of this machine's, else one that we lend it."""
        address = service.spec.cluster_ip
        if address in ("", "None") or service.spec.type == "ExternalName":
            return ""
        if address.startswith("127."):
            return address
        if service.metadata.uid not in self._own_addresses:
            self._own_addresses[service.metadata.uid] = self._addresses.take()
        return self._own_addresses[service.metadata.uid]

    def _forget_addresses(self, alive: set[str]) -> None:
        for uid in self._own_addresses.keys() - alive:
            self._addresses.give_back(self._own_addresses.pop(uid))


def _forwards(service: _Service, address: str, slices: Iterable[_Slice]) -> dict[Address, list[Address]]:
    forwards: dict[Address, list[Address]] = {}
    for port in service.spec.ports:
        if port.protocol != "TCP":
            continue
        targets = forwards.setdefault((address, port.port), [])
        for one in slices:
            for target in one.ports or ():
                if (target.name or "") == port.name and target.port is not None:
                    targets += [(end.addresses[0], target.port) for end in one.ready()]
    return forwards
