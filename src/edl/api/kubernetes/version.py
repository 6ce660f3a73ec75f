"""The versions of Kubernetes that EDL supports.

Everything that names one takes it from here: the operator, which refuses older servers, `edl doctor`, the Helm chart,
and what the embedded server and its nodes report. Where it must be written out (documents, the go.mod of the real
cluster that tests build), a test compares it with this file.
"""

OLDEST = (1, 32)
"""The first with Jobs that another controller manages (spec.managedBy). Older servers ignore the field and would run
every trainer twice."""

NEWEST = "v1.36.3"
"""The newest that EDL is tested with, and the one whose behaviour the embedded server follows."""


def is_too_old(version: str) -> bool:
    """Whether `v1.31.2+vendor` or the like is older than OLDEST. A version that cannot be read is taken for new."""
    numbers = version.removeprefix("v").split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) < OLDEST


def oldest() -> str:
    return ".".join(map(str, OLDEST))


def newest_minor() -> str:
    return NEWEST.removeprefix("v").rpartition(".")[0]
