"""Defaults: what an omitted field means, filled in memory and never written into the user's spec.

Idempotent in every kind. What depends on the installation (EDL's own image) or the cluster stays omitted; see
`edl.api.job_view`.
"""

from typing import TypeVar

V = TypeVar("V")


def given_or(value: V | None, otherwise: V) -> V:
    return otherwise if value is None else value
