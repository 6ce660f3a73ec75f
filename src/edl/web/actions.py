"""What a viewer may change of a job: its size, a pause, its end. With the viewer's own credential, by uid.

The server itself has no right to any of it: what the API server refuses the viewer is refused here.
"""

import time

from edl.jobs.core.kind import JobKind
from edl.jobs.core.user_requests import pause_patch, size_patch
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.operator.resources import resource_of
from edl.web.errors import RefusedError
from edl.web.lookups import refused
from edl.web.model.rows import text
from edl.web.types import Done, JobRow


async def set_size(client: Client, kind: JobKind, row: JobRow, size: int, now: float | None = None) -> Done:
    if kind.scale_paths is None:
        raise RefusedError(400, "bad-request", "its size comes from its JobResource; scale that one")
    if row.min is not None and row.max is not None and not row.min <= size <= row.max:
        raise RefusedError(400, "bad-request", f"size {size} is outside {row.min}..{row.max}, the job's own range")
    patch = size_patch(kind, size, now=time.time() if now is None else now)
    await _patch(client, kind, row, patch)
    return Done(message=f"size {size} is asked for")


async def set_pause(
    client: Client, kind: JobKind, row: JobRow, paused: bool, *, held: bool, now: float | None = None
) -> Done:
    """`held`: a size that a user asked for is held, which resuming ends too."""
    release = (time.time() if now is None else now) if held else None
    await _patch(client, kind, row, pause_patch(paused=paused, release=release))
    return Done(message="it stays at its present size" if paused else "it is scaled again")


async def delete(client: Client, kind: JobKind, row: JobRow) -> Done:
    """By uid: should another job have taken the name in between, it stays."""
    try:
        await client.delete(resource_of(kind), row.name, namespace=row.namespace, uid=row.uid)
    except ApiError as error:
        raise _said(error, row) from None
    return Done(message=f"{row.name} is deleted; its pods and services follow")


async def _patch(client: Client, kind: JobKind, row: JobRow, patch: dict[str, object]) -> None:
    """The uid in the patch makes the server refuse it for another job of the name."""
    metadata = patch.get("metadata")
    named = {**patch, "metadata": {**(metadata if isinstance(metadata, dict) else {}), "uid": row.uid}}
    try:
        await client.patch(resource_of(kind), row.name, named, namespace=row.namespace)
    except ApiError as error:
        raise _said(error, row) from None


def _said(error: ApiError, row: JobRow) -> RefusedError:
    if error.is_forbidden:
        return RefusedError(403, "forbidden", text(error.status.message, 400))
    if error.is_conflict or error.is_invalid:
        return RefusedError(409, "bad-request", text(error.status.message, 400))
    return refused(error, f"job {row.namespace}/{row.name}")
