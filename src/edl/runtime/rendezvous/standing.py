"""How things stand for one agent: what it says of itself and what it was told. Pure; the link carries it."""

from dataclasses import dataclass

from .messages import (
    Failed,
    Finished,
    Formed,
    Hello,
    Leaving,
    Over,
    Refused,
    Report,
    Stale,
    Training,
    Verdict,
    Wait,
    Waiting,
    Word,
)
from .rounds import Round


@dataclass
class Standing:
    """`report` is all that a service needs to hear after `hello`, whichever leader it is."""

    hello: Hello
    report: Report | None = None
    round: Round | None = None
    stale: str = ""
    verdict: Verdict | None = None
    over: bool = False
    refused: str = ""
    waiting_for: str = ""

    @property
    def number(self) -> int:
        return self.round.number if self.round else 0

    @property
    def rank(self) -> int:
        rank = self.round.rank(self.hello.agent) if self.round else None
        if rank is None:
            raise RuntimeError(f"{self.hello.agent} has no place in a round")
        return rank

    # ---- what the agent does

    def wait(self, endpoint: str) -> None:
        self.report, self.verdict, self.waiting_for = Waiting(self.number, endpoint), None, ""

    def fail(self, *, hard: bool) -> None:
        self.report, self.verdict = Failed(self.number, hard), None

    def finish(self) -> None:
        self.report = Finished(self.number)

    def leave(self, reason: str) -> None:
        self.report = Leaving(reason)

    # ---- what it is told

    def hear(self, word: Word) -> None:
        if isinstance(word, Formed):
            self._formed(word.round)
        elif isinstance(word, Stale):
            self._stale(word)
        elif isinstance(word, Verdict):
            if word.round == self.number and isinstance(self.report, Failed):
                self.verdict = word
        elif isinstance(word, Wait):
            self.waiting_for = word.reason
        elif isinstance(word, Over):
            self.over = True
        elif isinstance(word, Refused):
            self.refused = word.reason

    def _formed(self, formed: Round) -> None:
        report = self.report
        if isinstance(report, Waiting) and formed.number > report.after and self.hello.agent in formed:
            self.round, self.report, self.stale = formed, Training(formed.number), ""

    def _stale(self, word: Stale) -> None:
        if isinstance(self.report, Waiting) and word.round > self.report.after:
            self.report = Waiting(word.round, self.report.endpoint)  # it had a place and was never told: on to the next
        elif word.round == self.number and isinstance(self.report, Training | Failed):
            self.stale = word.reason
