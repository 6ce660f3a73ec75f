"""State of one agent: the report that it makes of itself, and what the service answered. Pure, no I/O."""

from dataclasses import dataclass, replace

from edl.protocol.rendezvous import (
    NO_CHANGE,
    AgentReport,
    Change,
    Failed,
    FailureCause,
    Finished,
    Formed,
    Hello,
    Leaving,
    Over,
    Refused,
    ServiceMessage,
    Stale,
    Training,
    Wait,
    Waiting,
)
from edl.protocol.rounds import Round


@dataclass
class AgentState:
    """`report` is all that a service needs to receive after `hello`, whichever leader it is."""

    hello: Hello
    report: AgentReport | None = None
    round: Round | None = None
    stale: str = ""
    failure_cause: FailureCause | None = None
    over: bool = False
    refused: str = ""
    waiting_for: str = ""
    out: int = 0
    """The last round that formed without this agent while it waited."""
    change: Change = NO_CHANGE
    """How its workers came into the round that they were last in."""

    @property
    def number(self) -> int:
        return self.round.number if self.round else 0

    @property
    def rank(self) -> int:
        rank = self.round.rank(self.hello.agent) if self.round else None
        if rank is None:
            raise RuntimeError(f"{self.hello.agent} has no place in a round")
        return rank

    @property
    def leads(self) -> bool:
        """Whether it has rank 0; not without a round."""
        return self.round is not None and self.round.rank(self.hello.agent) == 0

    # ---- the agent's own reports

    def wait(
        self, endpoint: str, *, in_place: bool = False, broken: bool = False, unreached: tuple[str, ...] = ()
    ) -> None:
        """In place: its workers live, and go on in the round before until there is another."""
        self.report = Waiting(self.number, endpoint, in_place, broken, unreached)
        self.failure_cause, self.waiting_for = None, ""

    def live_on(self, *, ready: bool, idle: bool = False, change: Change | None = None) -> None:
        """Its workers said that they can change members without a restart, how they are, and how they came here."""
        if isinstance(self.report, Training):
            self.change = change or self.change
            self.report = Training(self.number, in_place=True, ready=ready, idle=idle, change=self.change)

    def restarted(self, pause: float) -> None:
        """Its workers were started anew for the present round, after so many seconds without any."""
        if isinstance(self.report, Training):
            self.change = Change(self.number, pause=pause)
            self.report = replace(self.report, change=self.change)

    def fail(self, *, hard: bool, code: int = 0, message: str = "") -> None:
        self.report, self.failure_cause = Failed(self.number, hard, code, message), None

    def finish(self) -> None:
        self.report = Finished(self.number)

    def leave(self, reason: str) -> None:
        self.report = Leaving(reason)

    # ---- messages of the service

    def receive(self, message: ServiceMessage) -> None:
        if isinstance(message, Formed):
            self._formed(message.round)
        elif isinstance(message, Stale):
            self._stale(message)
        elif isinstance(message, FailureCause):
            if message.round == self.number and isinstance(self.report, Failed):
                self.failure_cause = message
        elif isinstance(message, Wait):
            self.waiting_for = message.reason
            if isinstance(self.report, Waiting) and message.round > self.report.after:
                self.out = message.round
        elif isinstance(message, Over):
            self.over = True
        elif isinstance(message, Refused):
            self.refused = message.reason

    def _formed(self, formed: Round) -> None:
        report = self.report
        if isinstance(report, Waiting) and formed.number > report.after and self.hello.agent in formed:
            ready = (
                report.in_place or not formed.in_place
            )  # who is new to a round that goes on starts its workers first
            self.report = Training(formed.number, formed.in_place, ready, idle=report.broken)
            self.round, self.stale = formed, ""

    def _stale(self, message: Stale) -> None:
        if isinstance(self.report, Waiting) and message.round > self.report.after:
            # It was a member and never heard of it: on to the next round.
            self.report = replace(self.report, after=message.round)
        elif message.round == self.number and isinstance(self.report, Training | Failed):
            self.stale = message.reason
