"""Makes sure that the API server knows our kinds, and is one that we can work with."""

import asyncio
import logging
from typing import Any

import msgspec

from edl.api.crds import crds
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.kube.transport import Request
from edl.operator.resources import CRDS

log = logging.getLogger(__name__)

OLDEST = (1, 32)
ESTABLISHED_WITHIN = 30.0


class UnsupportedError(Exception):
    """This API server cannot do what we need; the message says what."""


async def check_version(client: Client) -> str:
    """Jobs that another controller manages (spec.managedBy) are what we build on; older servers ignore the field and
    would run every trainer twice."""
    answer = await client.raw(Request("GET", "/version"))
    found = msgspec.json.decode(answer.body, type=dict[str, Any])
    name = str(found.get("gitVersion", "unknown"))
    numbers = name.removeprefix("v").split(".")[:2]
    if all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise UnsupportedError(
            f"this is Kubernetes {name}; EDL needs {wanted} or newer (Jobs with spec.managedBy). Upgrade the cluster."
        )
    return name


async def register_crds(client: Client) -> list[str]:
    """Registers the kinds that are absent and leaves the others as they are. Returns when all are served."""
    registered = []
    for body in crds():
        name = body["metadata"]["name"]
        try:
            await client.get(CRDS, name)
            continue
        except ApiError as error:
            if not error.is_not_found:
                raise
        try:
            await client.create(CRDS, body)
            registered.append(name)
        except ApiError as error:
            if not error.is_already_exists:
                raise
    if registered:
        log.info("registered %s", ", ".join(registered))
    await _wait_established(client)
    return registered


async def _wait_established(client: Client) -> None:
    waiting = {body["metadata"]["name"] for body in crds()}
    try:
        async with asyncio.timeout(ESTABLISHED_WITHIN):
            while waiting:
                for name in sorted(waiting):
                    if _established(await client.get(CRDS, name)):
                        waiting.remove(name)
                if waiting:
                    await asyncio.sleep(0.1)
    except TimeoutError:
        raise UnsupportedError(
            f"the API server does not serve {', '.join(sorted(waiting))} after {ESTABLISHED_WITHIN:g} s; "
            "`kubectl describe crd` says why"
        ) from None


def _established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)
