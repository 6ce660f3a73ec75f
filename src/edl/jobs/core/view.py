"""Builds the `JobView` of a job from what its kind says of it and from what all kinds say alike."""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from edl.api import annotations
from edl.api.job_view import Installation, JobView, Role
from edl.api.kubernetes import duration, timestamp
from edl.api.kubernetes.meta import EMPTY
from edl.api.status import Scale
from edl.jobs.core.objects import EdlObject

_RUNNING_PHASES = ("running", "scaling", "restarting")
PINNED = "it is pinned (edl.dev/pin)"


class ViewFunction(Protocol):
    """From a valid job, and the companion that it follows, to its view. `priority_classes`: values by name."""

    def __call__(
        self,
        job: Any,
        /,
        *,
        companion: Any = None,
        installation: Installation | None = None,
        priority_classes: Mapping[str, int] = EMPTY,
    ) -> JobView: ...


class JobTraits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parts of a view that each kind reads in its own way."""

    resource: str
    tag: str
    roles: tuple[Role, ...]
    scale: Scale
    replicas: int | None = None
    """The size to start with, if the user wrote one."""
    fixed: str = ""
    """Why its size cannot change though the user wrote a range, or nothing."""
    pause: bool = False
    priority: str | int | None = None
    freezing_window: str | None = None
    edit: str | None = None
    """As in the view; None: the sizes that the job itself declares."""
    reached: bool | None = None
    """As in the view; None: it is so once the job has run."""


class _Sizes(msgspec.Struct, frozen=True, gc=False):
    least: int
    most: int
    start: int
    allowed: tuple[int, ...] = ()
    fixed: str = ""


def build_view(job: EdlObject, traits: JobTraits, priority_classes: Mapping[str, int]) -> JobView:
    """`job` is defaulted."""
    notes, meta, scale = job.metadata.annotations, job.metadata, traits.scale
    lead = next(role for role in traits.roles if role.lead)
    sizes = _sizes(notes, traits, lead)
    priority = _priority(notes, traits.priority, lead, priority_classes)
    return JobView(
        kind=job.kind,
        api_version=job.api_version,
        resource=traits.resource,
        tag=traits.tag,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        priority=priority[0],
        priority_source=priority[1],
        priority_class=_class_name(lead),
        freezing_window=_freezing_window(traits.freezing_window or notes.get(annotations.FREEZING_WINDOW)),
        pause=_flag(notes, annotations.PAUSE) or traits.pause,
        pin=_flag(notes, annotations.PIN),
        suspend=bool(job.spec.suspend),
        admission=notes.get(annotations.ADMISSION, "hold"),
        min=sizes.least,
        max=sizes.most,
        start=sizes.start,
        sizes=sizes.allowed,
        fixed=sizes.fixed,
        **_remembered(scale),
        edit=f"{lead.min}-{lead.max}" if traits.edit is None else traits.edit,
        request=notes.get(annotations.SCALE_REQUEST, ""),
        obeyed=scale.request,
        held=_held(scale),
        phase=job.status.phase,
        finished=job.status.finished,
        reached=_has_run(job, scale) if traits.reached is None else traits.reached,
        roles=traits.roles,
    )


def _has_run(job: EdlObject, scale: Scale) -> bool:
    status = job.status
    runs = status.phase.lower() in _RUNNING_PHASES
    return runs or scale.pod_seconds > 0 or bool(getattr(status, "minimum_reached", False))


def _remembered(scale: Scale) -> dict[str, Any]:
    """What status remembers of sizes, under the same names."""
    return {
        "current": scale.current,
        "target": scale.target,
        "minimum": scale.minimum,
        "granted": scale.roles,
        "in_force": scale.roles_in_force,
        "last_scale_time": _moment(scale.last_scale_time),
        "pod_seconds": scale.pod_seconds,
        "rescale_seconds": scale.rescale_seconds,
    }


def _sizes(notes: Mapping[str, str], traits: JobTraits, lead: Role) -> _Sizes:
    allowed = _allowed(notes, lead)
    replicas = traits.replicas or lead.min
    start = max((size for size in allowed if size <= replicas), default=allowed[0]) if allowed else replicas
    fixed = PINNED if _flag(notes, annotations.PIN) else traits.fixed
    if lead.elastic and fixed:
        return _Sizes(start, start, start, fixed=fixed)
    return _Sizes(allowed[0], allowed[-1], start, allowed) if allowed else _Sizes(lead.min, lead.max, start)


def _allowed(notes: Mapping[str, str], lead: Role) -> tuple[int, ...]:
    try:
        sizes = annotations.sizes(notes[annotations.SIZES])
    except (KeyError, ValueError):
        return ()
    return tuple(size for size in sizes if lead.min <= size <= lead.max)


def _flag(notes: Mapping[str, str], name: str) -> bool:
    return notes.get(name) == "true"


def _freezing_window(text: str | None) -> float | None:
    try:
        return max(0.0, duration.seconds(text)) if text else None
    except ValueError:
        return None


def _priority(
    notes: Mapping[str, str], own: str | int | None, lead: Role, classes: Mapping[str, int]
) -> tuple[int, str]:
    """What the job says of itself counts before the class of its pods, and that before the default."""
    for source, value in (("spec.priority", own), (annotations.PRIORITY, notes.get(annotations.PRIORITY))):
        try:
            if value is not None:
                return annotations.priority(value), source
        except ValueError:
            continue
    class_name = _class_name(lead)
    if class_name in classes:
        return max(1, classes[class_name]), f"priorityClassName {class_name}"
    return annotations.NORMAL, "default"


def _class_name(lead: Role) -> str:
    return str(lead.template["spec"].get("priorityClassName") or "")


def _held(scale: Scale) -> tuple[int, float] | None:
    until = _moment(scale.hold.until) if scale.hold is not None else None
    return (scale.hold.size, until) if scale.hold is not None and until is not None else None


def _moment(text: str | None) -> float | None:
    try:
        return timestamp.seconds(text) if text else None
    except (ValueError, OverflowError):
        return None
