"""Writes a Secret of the installation under optimistic concurrency: only if it is as it was when it was read."""

import base64
from collections.abc import Mapping

from edl.api.kubernetes.core import Secret
from edl.kube.rest.client import Client
from edl.operator.resources import SECRETS


async def find_secret(client: Client, namespace: str, name: str) -> Secret | None:
    return await client.find(SECRETS, name, namespace=namespace, type=Secret)


async def write_secret(
    client: Client, namespace: str, name: str, data: Mapping[str, bytes], found: Secret | None
) -> None:
    """In the place of `found`, or for the first time. ApiError.is_conflict, is_already_exists: somebody was faster."""
    metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "edl"}}
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": encoded}
    if found is None:
        await client.create(SECRETS, body, namespace=namespace)
    else:
        metadata["resourceVersion"] = found.metadata.resource_version
        await client.replace(SECRETS, name, body, namespace=namespace)
