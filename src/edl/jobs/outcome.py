"""What goes into a look at one job, and what comes out of it. The same for every kind."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from edl.api.core import Pod
from edl.api.meta import EMPTY
from edl.jobs.children import Seen
from edl.jobs.intents import Change, Intent

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
    """Everything seen of one job. `pods` carry its uid; `objects` are those under the names of its children.

    `made`: what was made and is not watched (its Secret). `taken`: names of pods that others have. `worded_at`: when
    words alone were last written into its status, or else when we first saw it.
    """

    pods: Sequence[Pod] = ()
    objects: Mapping[ObjectKey, Seen] = EMPTY  # type: ignore[assignment]  # one shared empty mapping fits every key type
    made: frozenset[ObjectKey] = frozenset()
    taken: frozenset[str] = frozenset()
    refusals: tuple[Refusal, ...] = ()
    worded_at: float = 0.0
    pause: float | None = None
    """How long the last change of size stopped the training, in seconds, if the job said so."""
    silence: Mapping[str, float] = EMPTY
    """Seconds since each pod last reported progress, by name; of those that ever did."""


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
    intents: tuple[Intent, ...] = ()
    soft: tuple[Change, ...] = ()
    events: tuple[JobEvent, ...] = ()
    """To be told when the status is written."""
    deeds: tuple[JobEvent, ...] = ()
    """To be told when the intents are carried out."""
    wake: float | None = None
    """When to look again though nothing changed."""

    def validate(self) -> Iterator[str]:
        """Every broken promise, for tests."""
        for intent in self.intents:
            if isinstance(intent, Change) and intent.patch[0]["value"] != intent.version:
                yield f"{intent} is not bound to a version"
