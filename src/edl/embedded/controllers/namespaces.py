"""Namespace controller: creates what every namespace contains, and empties a deleted one before it goes."""

from typing import Any

from edl.api.kubernetes.core import Namespace
from edl.embedded.controllers.caches import Caches
from edl.embedded.controllers.discovery import discover
from edl.embedded.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from edl.kube.cache.objects import Key
from edl.kube.controllers.controller import Controller, Source
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource

ROOT_CA = "kube-root-ca.crt"
_RETRY_SECONDS = 0.2


class Namespaces:
    """`authority` is the certificate authority (PEM) that pods should trust; empty publishes none."""

    def __init__(self, caches: Caches, *, authority: str = "") -> None:
        self._client = caches.client
        self._namespaces = caches.of(NAMESPACES, Namespace)
        self._authority = authority

    def controller(self) -> Controller:
        return Controller("namespace", [Source(self._namespaces)], self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        namespace = self._namespaces.get(key)
        if namespace is None:
            return None
        if namespace.metadata.deletion_timestamp is not None:
            return await self._empty(namespace.metadata.name)
        await self._ensure_contents(namespace.metadata.name)
        return None

    async def _ensure_contents(self, name: str) -> None:
        """The default service account, which gives no pod a token, and the authority that pods get with one."""
        meta = {"name": "default", "namespace": name}
        account = {
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False
        }  # fmt: skip
        await self._ensure(SERVICE_ACCOUNTS, account, name)
        if self._authority:
            meta = {"name": ROOT_CA, "namespace": name}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ca.crt": self._authority}}
            await self._ensure(CONFIG_MAPS, body, name)

    async def _ensure(self, resource: Resource, body: dict[str, Any], namespace: str) -> None:
        try:
            await self._client.get(resource, body["metadata"]["name"], namespace=namespace)
        except ApiError as error:
            if not error.is_not_found:
                raise
            try:
                await self._client.create(resource, body, namespace=namespace)
            except ApiError as refused:
                if not (refused.is_already_exists or refused.is_forbidden or refused.is_not_found):
                    raise

    async def _empty(self, name: str) -> float | None:
        """Delete everything in it, again and again until nothing is left; then let it go."""
        left = 0
        for resource in (await discover(self._client)).namespaced():
            left += await self._clear(resource, name)
        if left:
            return _RETRY_SECONDS
        await self._finalize(name)
        return None

    async def _clear(self, resource: Resource, namespace: str) -> int:
        try:
            page = await self._client.list_page(resource, namespace=namespace, limit=1)
            if page.items:
                await self._client.delete_collection(resource, namespace=namespace)
        except ApiError as error:
            if error.is_not_found or error.code == 405:  # the kind is gone, or knows no collections
                return 0
            raise
        return len(page.items)

    async def _finalize(self, name: str) -> None:
        try:
            body = await self._client.get(NAMESPACES, name)
            spec = body.setdefault("spec", {})
            spec["finalizers"] = [one for one in spec.get("finalizers") or () if one != "kubernetes"]
            await self._client.replace(NAMESPACES, name, body, subresource="finalize")
        except ApiError as error:
            if not error.is_not_found:
                raise
