"""What an agent and the job service say to each other about rounds. docs/rendezvous.md is the protocol in words.

Both sides always say how things stand, never what happened: a message that was lost with its connection is made good
by the next one, and saying a thing twice changes nothing.
"""

import msgspec

from .rounds import Round


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first message of an agent on each connection. `agent` is POD/PROCESS; `window` and `linger` are seconds.

    `follows`: minimum and maximum are what the operator wrote when it made the pod; what the job says now counts."""

    agent: str
    run: str
    minimum: int
    maximum: int
    window: float = 3.0
    linger: float = 0.3
    follows: bool = False


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """Ready for a round after `after` (0: never was in one); others would reach the agent's store at `endpoint`."""

    after: int
    endpoint: str


class Training(msgspec.Struct, frozen=True, tag="training"):
    round: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A worker of this agent ended badly in this round. `hard`: by a signal, which no peer's end brings about."""

    round: int
    hard: bool


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """All workers of this agent ended well in this round."""

    round: int


class Leaving(msgspec.Struct, frozen=True, tag="leaving"):
    reason: str


Report = Waiting | Training | Failed | Finished | Leaving


class Formed(msgspec.Struct, frozen=True, tag="formed"):
    """The present round, the agent is in it."""

    round: Round


class Wait(msgspec.Struct, frozen=True, tag="wait"):
    """Not yet; `reason` is for the log."""

    reason: str


class Stale(msgspec.Struct, frozen=True, tag="stale"):
    """This round is over: stop the workers and wait for the next one."""

    round: int
    reason: str


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    """Whether the failure that the agent reported was its `own`, or followed from another's."""

    round: int
    own: bool
    reason: str


class Over(msgspec.Struct, frozen=True, tag="over"):
    """The training is finished, nothing is left to join."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    reason: str


Word = Formed | Wait | Stale | Verdict | Over | Refused
