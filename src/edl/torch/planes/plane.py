"""What sums gradients on a device: the small interface, and why a step still happens on all workers or on none.

gloo stays in every round. It carries the numbers that members agree by, the state of newcomers and the cut, and it
tells of a peer that is gone. A device plane beside it only sums gradients where they lie. It may fail on one worker and
not on another, and a worker cannot tell how it went elsewhere. So the order is fixed:

1. Each worker sums its gradients on the device, and waits until that is over. If it fails, or is aborted, the worker
   cuts the group and never sends its numbers of this step.
2. Only then does it take part in gloo's sum of the numbers.

A sum is over nowhere before all have sent their part. So whoever has the sum of the numbers knows that the device sum
of every worker was over, and was no aborted one: `Group` notes the cut before it aborts, and looks for it afterwards.
From there on it is as without a plane: gloo's last message may have come to some and not to others when a worker dies.
Those who have it apply the step, the others do not, and in the next round all go on from whoever has come farthest.

A device waits for ever for a peer that is gone. So the wait looks at gloo's connections (`Group`), which end with the
peer, and the cut of a group, from whichever thread, aborts its plane. Only for a peer that hangs with its connections
open does it take the next round and a grace besides (`NextGroup`), as it does without a plane.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

SOONEST, LATEST = 0.0001, 0.01  # seconds between looks at a sum
PART = 0.01  # of the time that it has taken so far


class PlaneError(RuntimeError):
    """It cannot be had, or what it was doing has failed."""


class Sum(Protocol):
    """One that is under way."""

    def over(self) -> bool:
        """Does not wait. Raises a RuntimeError if it has failed."""
        ...


class Plane(Protocol):
    """Of one round. `connect` is called first, in a thread that may hang."""

    @property
    def device(self) -> torch.device:
        """Where the gradients are that it sums."""
        ...

    def connect(self) -> None:
        """Until sums are possible with all peers, of which nobody is waited for afterwards but in a sum."""
        ...

    def all_reduce(self, tensor: torch.Tensor) -> Sum:
        """Over all members, in place. What is computed from the tensor later must not be reordered before it."""
        ...

    def abort(self) -> None:
        """Ends what is under way, from any thread, at any time and any number of times. Does not wait."""
        ...


Make = Callable[[Any, int, int], Plane]
"""From a store of its own, this worker's rank, and how many there are."""


class Polled:
    """A wait for a sum, in which nothing else would tell of a peer that is gone: `check` raises then."""

    def __init__(self, sum_: Sum, check: Callable[[], None]) -> None:
        self._sum, self._check = sum_, check

    def wait(self) -> None:
        began = time.monotonic()
        while not self._sum.over():
            self._check()
            time.sleep(min(max(SOONEST, PART * (time.monotonic() - began)), LATEST))
