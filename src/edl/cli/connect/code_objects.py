"""Ships the code of `edl run` to a cluster: ConfigMaps that the job owns, so that they go when it goes.

They are made with the user's own rights, while the job is suspended, which is how it was created: no pod waits for
code that never comes. Whatever goes wrong on the way, the job is deleted again, and with it what was made.
"""

import asyncio
import base64
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

from edl.api import annotations
from edl.api.annotations import CodeParts
from edl.api.labels import LABEL_JOB, LABEL_UID
from edl.cli.connect.jobs import JobSummary, resource_of, summarize
from edl.cli.errors import CommandError
from edl.cli.input.code import Code
from edl.jobs.core.pods.carried import PART_KEY

if TYPE_CHECKING:
    from edl.kube.rest.client import Client


def with_code(manifest: dict[str, Any], code: Code) -> dict[str, Any]:
    """The job, suspended until its code is there. The objects have names of their own: those of a job of the same name
    that was just replaced may still be on their way out."""
    name = f"{manifest['metadata']['name']}-code-{secrets.token_hex(4)}"
    notes = dict(manifest["metadata"].get("annotations") or {})
    notes[annotations.CODE] = str(CodeParts(name, len(code.parts), code.digest))
    metadata = {**manifest["metadata"], "annotations": notes}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "suspend": True}}


async def ship(client: "Client", job: JobSummary, code: Code) -> JobSummary:
    """The job as it is when it has its code and may start."""
    try:
        return await _ship(client, job, code)
    except BaseException:
        with contextlib.suppress(Exception):
            await asyncio.shield(_withdraw(client, job))
        raise


async def _ship(client: "Client", job: JobSummary, code: Code) -> JobSummary:
    from edl.kube.rest.errors import ApiError
    from edl.kube.rest.resource import Resource

    config_maps = Resource("", "v1", "configmaps", "ConfigMap")
    parts = annotations.code(job.raw["metadata"]["annotations"][annotations.CODE])
    try:
        await asyncio.gather(
            *(
                client.create(config_maps, _part(job, name, content), namespace=job.namespace)
                for name, content in zip(parts.names, code.parts, strict=True)
            )
        )
    except ApiError as error:
        if error.code == 403:
            raise CommandError(
                f"the code is shipped as ConfigMaps, which you may not create: {error.status.message}"
            ) from None
        raise
    patch = {"spec": {"suspend": None}}
    return summarize(job.kind, await client.patch(resource_of(job.kind), job.name, patch, namespace=job.namespace))


def _part(job: JobSummary, name: str, content: bytes) -> dict[str, Any]:
    owner = {"apiVersion": job.raw["apiVersion"], "kind": job.kind.name, "name": job.name, "uid": job.uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {LABEL_JOB: job.name, LABEL_UID: job.uid},
            "ownerReferences": [owner],
        },
        "immutable": True,
        "binaryData": {PART_KEY: base64.b64encode(content).decode()},
    }


async def _withdraw(client: "Client", job: JobSummary) -> None:
    await client.delete(resource_of(job.kind), job.name, namespace=job.namespace, uid=job.uid)
