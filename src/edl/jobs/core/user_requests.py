"""Patches by which users ask something of a job: a size, a pause. Pure; whoever sends one brings the time."""

from typing import Any

from edl.api.annotations import PAUSE, PIN, SCALE_REQUEST
from edl.api.kubernetes import timestamp
from edl.jobs.core.kind import Kind

Patch = dict[str, Any]


def size_request(size: int, now: float) -> str:
    """The text under `edl.dev/scale-request`: another text is another request, though the number is the same."""
    return f"{size}@{timestamp.text(now)}"


def size_patch(kind: Kind, size: int, *, now: float, pin: bool = False) -> Patch:
    """Number and request at once: a plan between the two would hold the job at another size, or give it one to take
    back. The kind has a size of its own."""
    assert kind.scale_paths is not None
    asked: Any = size
    for name in reversed(kind.scale_paths.spec.strip(".").split(".")):
        asked = {name: asked}
    note = {PIN: "true"} if pin else {SCALE_REQUEST: size_request(size, now)}
    return {"metadata": {"annotations": note}, **asked}


def pause_patch(*, paused: bool, release: float | None = None) -> Patch:
    """`release`: the time at which a size that a user asked for is let go, too; None: there is none."""
    if paused:
        return {"metadata": {"annotations": {PAUSE: "true"}}}
    request = None if release is None else f"none@{timestamp.text(release)}"
    return {"metadata": {"annotations": {PAUSE: None, SCALE_REQUEST: request}}}
