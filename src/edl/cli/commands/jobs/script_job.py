"""Creates the job of a script whose name a job may have already: in its place, or under a number of its own.

A job that has ended and was made of the same script is replaced: nobody edits, runs again and wants both. One that
still runs, or is of something else, is left alone.
"""

import asyncio
import copy
from typing import TYPE_CHECKING, Any, Literal

from edl.api.annotations import SCRIPT
from edl.cli.connect.code_objects import ship, with_code
from edl.cli.connect.jobs import JobSummary, look_up, resource_of, summarize
from edl.cli.errors import CommandError
from edl.cli.input.code import Code
from edl.jobs.registry import BY_API_VERSION

if TYPE_CHECKING:
    from edl.jobs.core.kind import Kind
    from edl.kube.rest.client import Client

Exists = Literal["replace", "number", "fail"]
EXISTS: tuple[Exists, ...] = ("replace", "number", "fail")
MOST = 1000  # numbers that are tried
GONE_WITHIN, POLL_INTERVAL = 60.0, 0.1


async def create_script_job(
    client: "Client", namespace: str, manifest: dict[str, Any], choice: Exists | None, code: Code | None = None
) -> JobSummary:
    """`code` goes to the cluster with it."""
    if code is None:
        return await _create(client, namespace, manifest, choice)
    job = await _create(client, namespace, with_code(manifest, code), choice)
    return await ship(client, job, code)


async def _create(client: "Client", namespace: str, manifest: dict[str, Any], choice: Exists | None) -> JobSummary:
    from edl.kube.rest.errors import ApiError

    kind = BY_API_VERSION[manifest["apiVersion"], manifest["kind"]]
    name = manifest["metadata"]["name"]
    for number in range(1, MOST):
        own = name if number == 1 else f"{name}-{number}"
        body = copy.deepcopy(manifest)
        body["metadata"]["name"] = own
        try:
            made = summarize(kind, await client.create(resource_of(kind), body, namespace=namespace))
        except ApiError as error:
            if not error.is_already_exists:
                raise
        else:
            if number > 1:
                print(f"{kind.singular}/{name} exists and runs, or is another script's: this one is {own}")
            return made
        if number == 1 and await _replaced(client, kind, namespace, body, choice):
            return summarize(kind, await client.create(resource_of(kind), body, namespace=namespace))
    raise CommandError(f"{name}-2 to {name}-{MOST - 1} exist; delete some with `edl delete`, or give --name")


async def _replaced(
    client: "Client", kind: "Kind", namespace: str, wanted: dict[str, Any], choice: Exists | None
) -> bool:
    """Whether the job that has the name has made room for the new one."""
    found = await look_up(client, kind, namespace, wanted["metadata"]["name"])
    if found is None:
        return True
    if choice == "fail":
        raise CommandError(f"{found.label} exists; `edl delete {found.name}{found.where}` first, or give --if-exists")
    notes = found.raw["metadata"].get("annotations") or {}
    same = notes.get(SCRIPT) == wanted["metadata"]["annotations"][SCRIPT]
    if choice == "number" or (choice is None and not (found.finished and same)):
        return False
    print(f"replaces {found.label}, which {'has ended' if found.finished else 'is stopped'}: {found.phase.lower()}")
    await client.delete(resource_of(kind), found.name, namespace=namespace, uid=found.uid)
    await _until_gone(client, kind, found)
    return True


async def _until_gone(client: "Client", kind: "Kind", job: JobSummary) -> None:
    try:
        async with asyncio.timeout(GONE_WITHIN):
            while True:
                left = await look_up(client, kind, job.namespace, job.name)
                if left is None or left.uid != job.uid:
                    return
                await asyncio.sleep(POLL_INTERVAL)
    except TimeoutError:
        raise CommandError(f"{job.label} was deleted and is still there; try again in a moment") from None
