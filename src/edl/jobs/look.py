"""What a look at one job is given, whatever its kind. A kind is a function from this to an `Outcome`."""

from typing import Any, Generic, TypeVar

import msgspec

from edl.api.problem import Problem
from edl.jobs.grant import Grant
from edl.jobs.outcome import Observed
from edl.jobs.pods import PodSettings

J = TypeVar("J")


class Look(msgspec.Struct, Generic[J], frozen=True, kw_only=True):
    """`job` is valid and defaulted: the last valid one, if `refused_edits` say that the present one is not.

    `warnings` are what its check had to say. `token` and `ca` go into its Secret. `companions` are objects of other
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
