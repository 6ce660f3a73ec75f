"""Environment variables of a pod, read from its spec and from Secrets. ConfigMaps and field references are left out."""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edl.kube.rest.client import Client


async def environment(client: "Client", pod: Mapping[str, Any], namespace: str, *, secrets: str) -> dict[str, str]:
    """Variables of the pod's first container. Only Secrets whose name begins with `secrets` are read."""
    container = ((pod.get("spec") or {}).get("containers") or [{}])[0]
    known: dict[str, dict[str, str]] = {}

    async def from_secret(name: str) -> dict[str, str]:
        if name.startswith(secrets) and name not in known:
            known[name] = await _secret(client, name, namespace)
        return known.get(name, {})

    variables: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        variables |= await from_secret((source.get("secretRef") or {}).get("name", ""))
    for variable in container.get("env") or ():
        key = (variable.get("valueFrom") or {}).get("secretKeyRef")
        variables[variable["name"]] = (
            (await from_secret(key["name"])).get(key["key"], "") if key else variable.get("value", "")
        )
    return variables


async def _secret(client: "Client", name: str, namespace: str) -> dict[str, str]:
    from edl.kube.rest.resource import Resource

    secret = await client.get(Resource("", "v1", "secrets", "Secret"), name, namespace=namespace)
    return {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
