"""Inputs and result of one reconcile, the same for every kind."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from edl.api.kubernetes.core import Pod
from edl.api.kubernetes.meta import EMPTY
from edl.api.status import JobProgress, MemberChange, RootCause
from edl.jobs.core.actions import Action, Change
from edl.jobs.core.children import ObservedChild

ObjectKey = tuple[str, str]
"""(kind, name), in the job's namespace."""


class Refusal(msgspec.Struct, frozen=True):
    """The API server would not have something that we wanted to make. `foreign`: the name belongs to somebody else."""

    kind: str
    name: str
    code: str
    message: str
    foreign: bool = False
    retry_at: float = 0.0
    """Not to be tried again before."""


class Observed(msgspec.Struct, frozen=True):
    """Everything observed of one job. `pods` carry its uid; `objects` are those under the names of its children.

    `made`: what was made and is not watched (its Secret). `taken`: names of pods that others have. `message_time`: when
    a message alone was last written into its status, or else when the job was first observed.
    """

    pods: Sequence[Pod] = ()
    objects: Mapping[ObjectKey, ObservedChild] = EMPTY  # type: ignore[assignment]  # one shared empty mapping fits every key type
    made: frozenset[ObjectKey] = frozenset()
    taken: frozenset[str] = frozenset()
    refusals: tuple[Refusal, ...] = ()
    message_time: float = 0.0
    pause: float | None = None
    """How long the last change of size stopped the training, in seconds, if the job said so."""
    silence: Mapping[str, float] = EMPTY
    """Seconds since each pod last reported progress, by name; of those that ever did."""
    hopeless: RootCause | None = None
    """Why its script cannot work, if the rounds of its rendezvous say so."""
    progress: JobProgress | None = None
    """What the job reported of its training, if it did."""
    change: MemberChange | None = None
    """How its workers came into the round that they train in, if there was one before it."""
    idle: float | None = None
    """Seconds since what it reports last showed progress, None if it never reported any."""
    state_wait: str | None = None
    """What a restored job waits for before it can go on; empty: nothing; None: this leader does not know yet."""


class JobEvent(msgspec.Struct, frozen=True):
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Outcome(msgspec.Struct, frozen=True):
    """`status` is what should stand in the job's status. If `urgent`, it must stand there before anything is done:
    it holds decisions that a successor of ours has to know. What is in `soft` may wait a moment for more of its kind.
    """

    status: Any
    urgent: bool = False
    actions: tuple[Action, ...] = ()
    soft: tuple[Change, ...] = ()
    events: tuple[JobEvent, ...] = ()
    """Events to emit once the status is written."""
    action_events: tuple[JobEvent, ...] = ()
    """Events to emit once the actions have run."""
    requeue_at: float | None = None
    """When to reconcile again though nothing changed."""

    def validate(self) -> Iterator[str]:
        """Every broken promise, for tests."""
        for action in self.actions:
            if isinstance(action, Change) and action.patch[0]["value"] != action.version:
                yield f"{action} is not bound to a version"
