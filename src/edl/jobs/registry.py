"""The registry of kinds: one row each, from which everything else is looked up. A new kind is one line here."""

from collections.abc import Mapping

from edl.jobs.core.kind import JobKind, Kind
from edl.jobs.core.objects import EdlObject
from edl.jobs.easydl.kind import JOB_RESOURCE
from edl.jobs.easydl.kind import KIND as EASYDL_JOB
from edl.jobs.pytorch.kind import KIND as PYTORCH_JOB
from edl.jobs.training.kind import KIND as TRAINING_JOB

__all__ = [
    "BY_API_VERSION", "COMPANION_KINDS", "EASYDL_JOB", "JOB_KINDS", "JOB_KIND_BY_CRD", "JOB_RESOURCE", "KINDS",
    "PYTORCH_JOB", "TRAINING_JOB", "job_kind_of", "kind_of",
]  # fmt: skip

JOB_KINDS: tuple[JobKind, ...] = (
    TRAINING_JOB,
    PYTORCH_JOB,
    EASYDL_JOB,
)

COMPANION_KINDS: tuple[Kind, ...] = tuple(kind.companion.kind for kind in JOB_KINDS if kind.companion is not None)
KINDS: tuple[Kind, ...] = (*JOB_KINDS, *COMPANION_KINDS)
BY_API_VERSION: Mapping[tuple[str, str], Kind] = {
    (api_version, kind.name): kind for kind in KINDS for api_version in kind.api_versions
}
JOB_KIND_BY_CRD: Mapping[str, JobKind] = {kind.crd_name: kind for kind in JOB_KINDS}
_BY_TYPE: Mapping[type, Kind] = {kind.type: kind for kind in KINDS}
_JOB_KIND_BY_TYPE: Mapping[type, JobKind] = {kind.type: kind for kind in JOB_KINDS}


def kind_of(value: EdlObject) -> Kind:
    return _BY_TYPE[type(value)]


def job_kind_of(job: EdlObject) -> JobKind:
    return _JOB_KIND_BY_TYPE[type(job)]
