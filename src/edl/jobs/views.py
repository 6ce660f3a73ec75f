"""The `JobView` of a job of any kind. Takes valid objects; its kind fills in their defaults."""

from collections.abc import Mapping
from typing import Any

from edl.api.job_view import Installation, JobView
from edl.api.kubernetes.meta import EMPTY
from edl.jobs.core.objects import EdlObject
from edl.jobs.registry import job_kind_of


def view(
    job: EdlObject,
    *,
    companion: Any = None,
    installation: Installation | None = None,
    priority_classes: Mapping[str, int] = EMPTY,
) -> JobView:
    """`companion`: the one that the job follows, see `JobKind.followed`. `priority_classes`: values by name."""
    return job_kind_of(job).view(job, companion=companion, installation=installation, priority_classes=priority_classes)
