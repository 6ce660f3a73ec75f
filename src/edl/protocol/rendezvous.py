"""Messages between a PyTorch agent and the job service on the rendezvous WebSocket.

Both sides send their present state, never an event: a message that was lost with its connection is made good by the
next one, and sending a message twice changes nothing. Plain dataclasses, read and written by `tagged`: the images of
users hold torch and nothing of ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from edl.protocol.rounds import Round
from edl.protocol.tagged import UNTOLD


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The first message of an agent on each connection. `agent` is POD/PROCESS; `window` and `linger` are seconds.

    `follows`: minimum and maximum are what the operator wrote when it made the pod; what the job says now counts."""

    agent: str
    run: str
    minimum: int
    maximum: int
    window: float = 3.0
    linger: float = 0.3
    follows: bool = False


@dataclass(frozen=True)
class Change:
    """How an agent's workers came into a round; `round` 0: there is nothing to tell.

    `pause`: seconds that they did not train, or were not there if they were started anew. `lost`: steps that they have
    to make again, -1 if only the script knows. `received`: bytes of state that came from others."""

    round: int = 0
    in_place: bool = False
    pause: float = 0.0
    lost: int = -1
    received: int = 0


NO_CHANGE = Change()


@dataclass(frozen=True)
class Waiting:
    """Ready for a round after `after` (0: never was in one); others would reach the agent's store at `endpoint`.

    `in_place`: its workers live, have their state, and change over without a restart; until then they go on in the
    round before. `broken`: they cannot, because a peer of theirs is gone. `unreached`: agents of the round `after` that
    do not answer them, though they may well live."""

    TYPE: ClassVar[str] = "waiting"
    after: int
    endpoint: str
    in_place: bool = False
    broken: bool = False
    unreached: tuple[str, ...] = field(default=(), metadata=UNTOLD)


@dataclass(frozen=True)
class Training:
    """`in_place`: its workers change members without a restart. `ready`: they have the state of the training; who has
    it not yet is not waited for when others have to regroup. `idle`: they have no group to train in."""

    TYPE: ClassVar[str] = "training"
    round: int
    in_place: bool = False
    ready: bool = True
    idle: bool = False
    change: Change = field(default=NO_CHANGE, metadata=UNTOLD)


@dataclass(frozen=True)
class Failed:
    """A worker of this agent ended badly in this round. `hard`: by a signal, which no peer's end brings about."""

    TYPE: ClassVar[str] = "failed"
    round: int
    hard: bool
    code: int = 0
    """Its exit code, 0 if the agent does not say."""
    message: str = ""
    """Its exception, or its last lines on stderr."""


@dataclass(frozen=True)
class Finished:
    """All workers of this agent ended well in this round."""

    TYPE: ClassVar[str] = "finished"
    round: int


@dataclass(frozen=True)
class Leaving:
    TYPE: ClassVar[str] = "leaving"
    reason: str


AgentReport = Waiting | Training | Failed | Finished | Leaving
AGENT_REPORTS: Mapping[str, type[AgentReport]] = {
    kind.TYPE: kind for kind in (Waiting, Training, Failed, Finished, Leaving)
}


@dataclass(frozen=True)
class Formed:
    """The present round, the agent is in it."""

    TYPE: ClassVar[str] = "formed"
    round: Round


@dataclass(frozen=True)
class Wait:
    """Not yet; `reason` is for the log. `round` is the present one, which formed without this agent."""

    TYPE: ClassVar[str] = "wait"
    reason: str
    round: int = 0


@dataclass(frozen=True)
class Stale:
    """This round is over: stop the workers and wait for the next one."""

    TYPE: ClassVar[str] = "stale"
    round: int
    reason: str


@dataclass(frozen=True)
class FailureCause:
    """Whether the failure that the agent reported was its `own`, or followed from another's."""

    TYPE: ClassVar[str] = "verdict"
    round: int
    own: bool
    reason: str


@dataclass(frozen=True)
class Over:
    """The training is finished, nothing is left to join."""

    TYPE: ClassVar[str] = "over"


@dataclass(frozen=True)
class Refused:
    TYPE: ClassVar[str] = "refused"
    reason: str


ServiceMessage = Formed | Wait | Stale | FailureCause | Over | Refused
SERVICE_MESSAGES: Mapping[str, type[ServiceMessage]] = {
    kind.TYPE: kind for kind in (Formed, Wait, Stale, FailureCause, Over, Refused)
}
