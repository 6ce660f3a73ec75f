"""Resolves what a pod refers to by asking the API server: ConfigMaps, Secrets, tokens of its service account."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import ConfigMap, Secret
from edl.embedded.node.network.service_directory import ServiceDirectory
from edl.embedded.node.pod.inputs import PodInputs, references_of
from edl.embedded.node.pod.types import Pod, TokenSource
from edl.embedded.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource

T = TypeVar("T")
_FRESH_SECONDS = 1.0


class ReferenceResolver:
    """`variables` are given to every pod, beside those of its namespace's services."""

    def __init__(
        self,
        client: Client,
        directory: ServiceDirectory,
        *,
        allocatable: Mapping[str, Any],
        variables: Mapping[str, str],
    ) -> None:
        self._client = client
        self._directory = directory
        self._allocatable = allocatable
        self._variables = variables
        self._tokens: dict[tuple[str, TokenSource], tuple[str, float]] = {}
        self._recent: dict[tuple[Resource, str, str], tuple[float, asyncio.Task[Any]]] = {}

    async def resolve(self, pod: Pod, *, pod_ip: str, host_ip: str) -> PodInputs:
        wanted = references_of(pod)
        namespace = pod.metadata.namespace
        config_maps, secrets, tokens = await asyncio.gather(
            self._all(CONFIG_MAPS, namespace, wanted.config_maps, ConfigMap),
            self._all(SECRETS, namespace, wanted.secrets, Secret),
            asyncio.gather(*(self._token(pod, source) for source in wanted.tokens)),
        )
        links = self._directory.variables(namespace) if pod.spec.enable_service_links else {}
        return PodInputs(
            config_maps=config_maps,
            secrets=secrets,
            tokens=dict(zip(wanted.tokens, tokens, strict=True)),
            variables={**links, **self._variables},
            allocatable=self._allocatable,
            pod_ip=pod_ip,
            host_ip=host_ip,
        )

    def forget(self, uid: str) -> None:
        for key in [key for key in self._tokens if key[0] == uid]:
            del self._tokens[key]

    async def _all(
        self, resource: Resource, namespace: str, names: Iterable[str], kind: type[T]
    ) -> dict[str, T | None]:
        wanted = sorted(names)
        found = await asyncio.gather(*(self._one(resource, namespace, name, kind) for name in wanted))
        return dict(zip(wanted, found, strict=True))

    async def _one(self, resource: Resource, namespace: str, name: str, kind: type[T]) -> T | None:
        """Pods come in crowds that refer to the same objects: one answer serves all who ask within a second."""
        now = asyncio.get_running_loop().time()
        for key in [key for key, (asked, _) in self._recent.items() if now - asked > _FRESH_SECONDS]:
            del self._recent[key]
        key = (resource, namespace, name)
        if key not in self._recent:
            asked = self._client.find(resource, name, namespace=namespace, type=kind)
            self._recent[key] = (now, asyncio.create_task(asked))
        found: T | None = await asyncio.shield(self._recent[key][1])
        return found

    async def _token(self, pod: Pod, source: TokenSource) -> str:
        """A token bound to the pod; the one at hand while four fifths of its time are not over."""
        key = (pod.metadata.uid, source)
        token, renew = self._tokens.get(key, ("", 0.0))
        if token and time.time() < renew:
            return token
        reference = {"kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid}
        spec: dict[str, Any] = {"expirationSeconds": source.expiration_seconds, "boundObjectRef": reference}
        if source.audience:
            spec["audiences"] = [source.audience]
        answer = await self._client.create(
            SERVICE_ACCOUNTS,
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
            name=pod.spec.service_account_name or "default",
            namespace=pod.metadata.namespace,
            subresource="token",
        )
        now, end = time.time(), timestamp.seconds(answer["status"]["expirationTimestamp"])
        self._tokens[key] = (answer["status"]["token"], now + 0.8 * (end - now))
        return str(answer["status"]["token"])
