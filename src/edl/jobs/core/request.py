"""The request to reconcile one job, whatever its kind. A kind is a function from this to an `Outcome`."""

from typing import Any, Generic, TypeVar

import msgspec

from edl.api.schema.problem import Problem
from edl.jobs.core.grant import Grant
from edl.jobs.core.outcome import Observed
from edl.jobs.core.pods.pod_builder import PodSettings
from edl.jobs.core.stall import STALLED_AFTER

J = TypeVar("J")


class ReconcileRequest(msgspec.Struct, Generic[J], frozen=True, kw_only=True):
    """`job` is valid and defaulted: the last valid one, if `refused_edits` say that the present one is not.

    `warnings` are those of its check. `token` and `ca` go into its Secret. `companions` are objects of other
    kinds that speak of the job (the JobResources of an EasyDL job).
    """

    job: J
    observed: Observed
    grant: Grant | None
    settings: PodSettings
    now: float
    warnings: tuple[Problem, ...] = ()
    refused_edits: tuple[Problem, ...] = ()
    token: str = ""
    ca: str = ""
    companions: tuple[Any, ...] = ()
    stalled_after: float = STALLED_AFTER
    """Seconds without progress after which a job is Stalled that says nothing else itself; 0: never."""
