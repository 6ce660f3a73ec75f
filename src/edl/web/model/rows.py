"""The row of a job, out of the object as the API server has it. Pure, and content with whatever is in it.

What people write into objects is shown, never obeyed: every field is a string or a number of bounded size.
"""

from collections.abc import Mapping
from typing import Any

from edl.api.annotations import PAUSE
from edl.api.kubernetes import timestamp
from edl.jobs.core.kind import JobKind
from edl.operator.resources import RawJob
from edl.web.types import JobRow

LONGEST = 2000  # characters of a reason or message that are shown
Data = Mapping[str, Any]


def job_key(kind: str, namespace: str, name: str) -> str:
    return f"{kind}/{namespace}/{name}"


def row_of(kind: JobKind, raw: RawJob) -> JobRow:
    """Columns come from the kind's row, as those of `kubectl get` do."""
    spec, status, meta = mapping(raw.spec), mapping(raw.status), raw.metadata
    whole = {"spec": spec, "status": status}
    columns = {column.name: at(whole, column.path) for column in kind.columns}
    progress, scale = mapping(status.get("progress")), mapping(status.get(kind.scale_field))
    now, target = integer(columns.get("Now")), integer(columns.get("Target"))
    least = integer(columns.get("Min"))
    most = integer(columns.get("Max"))
    return JobRow(
        key=job_key(kind.crd_name, meta.namespace, meta.name),
        kind=kind.crd_name,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        state=_state(raw, spec, status, now, target),
        phase=text(columns.get("Phase"), 40),
        now=now,
        target=target,
        min=least,
        max=least if most is None else most,
        code=text(scale.get("code"), 80),
        reason=text(columns.get("Reason") or status.get("reason")),
        percent=_percent(progress),
        progress=text(progress.get("shown"), 40),
        eta=text(progress.get("eta"), 40),
        loss=number(progress.get("loss")),
        throughput=number(progress.get("throughput")),
        priority=text(columns.get("Priority"), 40),
        created=moment(meta.creation_timestamp),
        ended=moment(status.get("completion_time") or status.get("completionTime")),
    )


def _state(raw: RawJob, spec: Data, status: Data, now: int | None, target: int | None) -> str:
    phase = str(status.get("phase") or "").lower()
    if phase in ("succeeded", "failed"):
        return phase
    if raw.metadata.deletion_timestamp:
        return "deleting"
    if not phase:
        return "new"
    if spec.get("suspend") is True:
        return "suspended"
    if is_true(status, "Queued"):
        return "waiting"
    if now != target:
        return "changing" if now else "starting"
    if spec.get("pause") is True or raw.metadata.annotations.get(PAUSE) == "true":
        return "paused"
    return "running"


def is_true(status: Data, condition: str) -> bool:
    return any(
        mapping(one).get("type") == condition and mapping(one).get("status") == "True"
        for one in listing(status.get("conditions"))
    )


def _percent(progress: Data) -> float | None:
    done, total = number(progress.get("done")), number(progress.get("total"))
    return None if done is None or not total or total < 0 else max(0.0, min(100.0, 100.0 * done / total))


# Values that anybody may have written.


def at(value: Any, path: str) -> Any:
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def mapping(value: Any) -> Data:
    return value if isinstance(value, Mapping) else {}


def listing(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: Any, longest: int = LONGEST) -> str:
    if value is None or isinstance(value, Mapping | list):
        return ""
    found = str(value)
    return found if len(found) <= longest else f"{found[: longest - 1]}…"


def integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> float | None:
    """Finite ones: JSON has no others."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        return None
    return float(value)


def moment(value: Any) -> float | None:
    if not isinstance(value, str) or not value:
        return None
    try:
        return timestamp.seconds(value)
    except ValueError:
        return None
