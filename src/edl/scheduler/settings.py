"""Settings of the scheduler that administrators choose, and the constants that they do not."""

import functools
from fractions import Fraction
from typing import Literal

import msgspec

from edl.scheduler.policies.registry import DEFAULT_POLICY

INTERVAL = 60.0  # what a planned pod counts as having run already, in the dry run of cfs (decision 21)
FREEZE = 30.0  # the shortest freezing window that is not asked for (decision 24)
FREEZE_PAUSES = 10.0  # or so many times the pause that a change of size costs
KEEPS_AFTER = 300.0  # the oldest waiting gang keeps what it lacks (decision 22)
REFUSED_FOR = 15.0  # a pod of ours that stays Unschedulable is withdrawn (decision 26)
SHAPE_BACKOFF = 30.0
SHAPE_BACKOFF_MAX = 900.0
PODS_WITHIN = 5.0  # a grant whose pods the API server refuses for so long is given back
GRANT_BACKOFF = 30.0
GRANT_BACKOFF_MAX = 600.0
BOUND_WITHIN = 30.0  # a foreign pod that capacity was reclaimed for should be bound by then (decision 23)
FREED_WITHIN = 300.0  # or the pods that leave for it have had their time to go
FOREIGN_BACKOFF = 60.0
FOREIGN_BACKOFF_MAX = 3600.0
STUCK_AFTER = 60.0  # a terminating pod this long past its end is not about to free anything
PROMISE_FOR = 120.0  # capacity freed by rebalancing is kept for its receiver this long
STARTS_WITHIN = 60.0  # the size to start with is waited for so long before a job grows beyond
GATHER_FOR = 30.0  # and is handed over in one piece if it comes together within this
PAYS_WITHIN = 600.0  # a change of size must win back its pause within this


class Weights(msgspec.Struct, frozen=True):
    """ResourceScore: what a pod weighs in the score of cfs."""

    gpu: float = 100.0
    cpu: float = 1.0
    memory_gib: float = 0.1


class Settings(msgspec.Struct, frozen=True):
    policy: str = DEFAULT_POLICY
    """A name of `policies.registry`; `plan` refuses others."""
    max_load: str = "0.97"
    """Share of the CPU that growth above the minimum may use. A decimal, so that it is exact."""
    available: Literal["limits", "requests"] = "limits"
    """What is subtracted from capacity to know what is available: limits (000) or requests."""
    weights: Weights = Weights()
    scale_hold: float = 300.0
    """Seconds that a size set by a user (`kubectl scale`) is held before the scheduler goes on from there."""

    def load(self) -> Fraction:
        return parse_load(self.max_load)


@functools.lru_cache(maxsize=16)
def parse_load(text: str) -> Fraction:
    """ValueError says what is wanted."""
    try:
        load = Fraction(text)
    except (ValueError, ZeroDivisionError):
        load = Fraction(0)
    if not 0 < load <= 1:
        raise ValueError(f"max load {text!r}: wants a number above 0 and up to 1, such as 0.97")
    return load
