"""Asks the API server for what a pod refers to: ConfigMaps, Secrets, tokens of its service account."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from edl.api import timestamp
from edl.api.core import ConfigMap, Secret
from edl.embedded.node.directory import ServiceDirectory
from edl.embedded.node.facts import Facts, needs_of
from edl.embedded.node.pod import Pod, TokenSource
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.kube.resource import Resource

T = TypeVar("T")
_FRESH_SECONDS = 1.0

_CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
_SECRETS = Resource("", "v1", "secrets", "Secret")
_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class Gatherer:
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

    async def gather(self, pod: Pod, *, pod_ip: str, host_ip: str) -> Facts:
        needs = needs_of(pod)
        namespace = pod.metadata.namespace
        config_maps, secrets, tokens = await asyncio.gather(
            self._all(_CONFIG_MAPS, namespace, needs.config_maps, ConfigMap),
            self._all(_SECRETS, namespace, needs.secrets, Secret),
            asyncio.gather(*(self._token(pod, source) for source in needs.tokens)),
        )
        links = self._directory.variables(namespace) if pod.spec.enable_service_links else {}
        return Facts(
            config_maps=config_maps,
            secrets=secrets,
            tokens=dict(zip(needs.tokens, tokens, strict=True)),
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
            self._recent[key] = (now, asyncio.create_task(self._get(resource, namespace, name, kind)))
        found: T | None = await asyncio.shield(self._recent[key][1])
        return found

    async def _get(self, resource: Resource, namespace: str, name: str, kind: type[T]) -> T | None:
        try:
            return await self._client.get(resource, name, namespace=namespace, type=kind)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

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
            _ACCOUNTS,
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
            name=pod.spec.service_account_name or "default",
            namespace=pod.metadata.namespace,
            subresource="token",
        )
        now, end = time.time(), timestamp.seconds(answer["status"]["expirationTimestamp"])
        self._tokens[key] = (answer["status"]["token"], now + 0.8 * (end - now))
        return str(answer["status"]["token"])
