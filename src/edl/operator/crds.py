"""Checks the API server's version and kinds, and registers the kinds that it lacks. Never changes one that is there.

An operator of this version and the kinds of another work together: fields are only ever added. What older kinds drop is
told in the log.
"""

import asyncio
import logging
from typing import Any

import msgspec

from edl.api.kubernetes import version
from edl.jobs.crd_fields import Path, fields_of, named_fields, schema_fields
from edl.jobs.crds import crds
from edl.jobs.registry import KINDS
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.transport import Request
from edl.operator.resources import CRDS

log = logging.getLogger(__name__)

ESTABLISHED_WITHIN = 30.0


class UnsupportedError(Exception):
    """The API server lacks what EDL needs; the message says what."""


async def check_version(client: Client) -> str:
    """Returns the server's version. Raises UnsupportedError if it is too old."""
    answer = await client.raw(Request("GET", "/version"))
    found = msgspec.json.decode(answer.body, type=dict[str, Any])
    name = str(found.get("gitVersion", "unknown"))
    if version.is_too_old(name):
        needed = f"EDL needs {version.oldest()} or newer (Jobs with spec.managedBy)"
        raise UnsupportedError(f"this is Kubernetes {name}; {needed}. Upgrade the cluster.")
    return name


async def register_crds(client: Client) -> list[str]:
    """Registers the kinds that are absent and leaves the others as they are. Returns when all are served."""
    registered = []
    for body in crds():
        name = body["metadata"]["name"]
        try:
            _tell_older(name, fields_of(body["spec"]) - fields_of((await client.get(CRDS, name))["spec"]))
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


async def check_kinds(client: Client) -> None:
    """Compares the kinds that are served with ours, by what every account may read. Tells, and refuses nothing: kinds
    may come a moment later than the operator, and older ones work but for what they lack."""
    for kind in KINDS:
        missing: set[Path] = set()
        for version_name in kind.versions:
            try:
                answer = await client.raw(Request("GET", f"/openapi/v3/apis/{kind.group}/{version_name}"))
            except ApiError as error:
                if error.is_not_found:
                    log.warning("the API server does not serve %s yet; `edl crds` prints the kinds", kind.crd_name)
                    return
                raise
            served = _schema_of(msgspec.json.decode(answer.body, type=dict[str, Any]), kind.name)
            missing |= {(version_name, *path) for path in _wanted(kind.crd_name, version_name) - served}
        _tell_older(kind.crd_name, missing)


def _schema_of(document: dict[str, Any], kind: str) -> set[Path]:
    """The fields of a kind in an OpenAPI document. Those of every object are not written out there."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    named = (
        one
        for one in schemas.values()
        if any(each.get("kind") == kind for each in one.get("x-kubernetes-group-version-kind") or ())
    )
    return set(schema_fields(next(named, {})))


def _wanted(name: str, version_name: str) -> set[Path]:
    spec = next(body["spec"] for body in crds() if body["metadata"]["name"] == name)
    paths = {path[1:] for path in fields_of(spec) if path[0] == version_name}
    return {path for path in paths if path and path[0] in ("spec", "status")}


def _tell_older(name: str, missing: set[Path]) -> None:
    if missing:
        words = "%s is older than this operator: the API server drops %s; apply what `edl crds` prints"
        log.warning(words, name, named_fields(missing))


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
