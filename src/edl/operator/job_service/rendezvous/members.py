"""Agents and pods as the lobby of a rendezvous knows them."""

from collections.abc import Sequence
from dataclasses import dataclass

from edl.protocol.rendezvous import NO_CHANGE, Change, Failed, Hello, Waiting
from edl.protocol.rounds import Round, RoundChange


@dataclass
class Agent:
    hello: Hello
    connected: bool = True
    lost_at: float = 0.0
    round: int = 0
    """The last round it was in, as far as it said."""
    waits: Waiting | None = None
    since: float = 0.0
    order: int = 0
    """Counts arrivals and failures: who came first."""
    failure: Failed | None = None
    finished: int = 0
    left: str = ""
    in_place: bool = False
    """Its workers change members without a restart."""
    ready: bool = True
    """Its workers have the state of the training, as far as it said."""
    idle: bool = False
    """Its workers have no group to train in: the change to the present round is under way."""

    change: Change = NO_CHANGE
    """How its workers came into the round that they were last in, as far as it said."""
    refused: str = ""
    """Why it may not take part any more."""

    @property
    def id(self) -> str:
        return self.hello.agent

    def adopted(self, formed: Round) -> None:
        """It is a member now. Where workers live on, those of a newcomer are ready when it says so."""
        self.in_place = formed.in_place
        self.ready = not formed.in_place or bool(self.waits and self.waits.in_place)
        self.idle = bool(self.waits and self.waits.broken)
        self.waits, self.failure, self.round = None, None, formed.number

    @property
    def lives(self) -> bool:
        """Whether its workers can go on in another round as they are, or at least nothing speaks against it."""
        return self.ready and self.failure is None and (self.waits is None or self.waits.in_place or not self.in_place)


@dataclass
class Pods:
    """The job's pods as the operator knows them: which exist and have not ended (None: not known), which were asked to
    go, which ended badly and which well, how many are planned, and the job's present minimum and maximum (None: it does
    not say)."""

    present: frozenset[str] | None = None
    leaving: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    succeeded: frozenset[str] = frozenset()
    target: int = 0
    bounds: tuple[int, int] | None = None
    fail_fast: bool = False
    """A script that cannot work ends the job."""


def round_change(formed: Round, before: int, changes: Sequence[Change]) -> RoundChange | None:
    """What all members of a round said of how they came into it; None until all have. They may say anything: what can
    only be counted up is never below nothing."""
    if not before or not changes or any(change.round != formed.number for change in changes):
        return None
    return RoundChange(
        run=formed.run,
        number=formed.number,
        before=before,
        after=len(formed.members),
        in_place=formed.in_place,
        pause=max(0.0, *(change.pause for change in changes)),
        lost=max(-1, *(change.lost for change in changes)),
        sent=sum(max(0, change.received) for change in changes),
    )
