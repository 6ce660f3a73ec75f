"""Membership state machine of the rendezvous: decides when a round ends and when the next one forms.

Pure; time is an argument.

A round is *stale* as soon as one of its members is gone, left, failed or waits for the next one, or when joiners are to
be admitted. Members learn it at once, stop their workers and wait. The next round forms the moment that every member
that is left waits: nobody waits for those who may still come, except

- joiners for each other, for `window` seconds at most, before they interrupt a round that holds;
- everybody for the size that the operator has planned, `window` seconds at most, while there is no one to keep waiting.

That somebody is gone is known from the operator (its pod), from its own report, or from its connection: one that broke
is believed when it is not back after `linger` seconds, at once if another member's worker failed too. A change of
leader is no reason to regroup.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from edl.jobs.core.pods.fail_fast import OWN_CODES
from edl.operator.job_service.rendezvous.attendance import GRACE, Attendance
from edl.operator.job_service.rendezvous.failure_cause import SETTLE, failure_cause
from edl.operator.job_service.rendezvous.members import Agent
from edl.operator.job_service.rendezvous.repeated_failure import RepeatedFailure
from edl.protocol.rendezvous import (
    AgentReport,
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
from edl.protocol.rounds import Round, assign_ranks, pod_of

QUICK = 60.0  # a round that fails sooner than this did not get anywhere
HOPELESS = 15.0  # seconds for the operator to end a job whose script cannot work, before another round is tried
STRAGGLER = 45.0  # torchrun gives workers 30 s to stop; whoever takes longer than this misses the round


@dataclass
class Decision:
    """A round to be made durable and then announced, if any, and when to decide again at the latest."""

    round: Round | None = None
    decide_at: float | None = None


@dataclass
class Lobby(Attendance):
    """Decides on rounds from what agents say and from who is here."""

    _stale_at: float = 0.0
    _formed_at: float = 0.0
    _failed: bool = False
    """The present round is over because a worker failed."""
    _fruitless: bool = False
    """The round before the present one failed soon after it had formed."""
    repeated: RepeatedFailure = field(default_factory=RepeatedFailure)
    _hopeless_at: float = float("-inf")
    _order: int = 0

    # ---- events

    def hello(self, hello: Hello, now: float) -> None:
        for other in self.agents.values():
            if pod_of(other.id) == pod_of(hello.agent) and other.id != hello.agent and not other.connected:
                other.left = other.left or f"its pod started another agent ({hello.agent})"
        agent = self.agents.setdefault(hello.agent, Agent(hello, since=now))
        agent.hello, agent.connected = hello, True

    def lost(self, agent: str, now: float) -> None:
        known = self.agents.get(agent)
        if known and known.connected:
            known.connected, known.lost_at = False, now

    def report(self, agent: str, report: AgentReport, now: float) -> None:
        known = self.agents[agent]
        if isinstance(report, Leaving):
            known.left = known.left or report.reason
        elif isinstance(report, Waiting):
            self._wait(known, report, now)
        else:
            known.waits, known.round = None, report.round
            if isinstance(report, Training):
                known.in_place, known.ready, known.idle = report.in_place, report.ready, report.idle
                known.change = report.change
            if isinstance(report, Failed) and (known.failure is None or known.failure.round != report.round):
                known.failure, known.since, known.order = report, now, self._next()
            elif isinstance(report, Finished):
                known.finished = report.round

    def _wait(self, agent: Agent, report: Waiting, now: float) -> None:
        if self.round and agent.id in self._member_ids and self.round.number > report.after:
            agent.round = self.round.number  # it is a member already and has not heard of it
            return
        if report.unreached:
            self._complain(agent, report)
        if agent.waits is None:
            agent.since, agent.order = now, self._next()
        agent.waits, agent.round = report, report.after

    def _next(self) -> int:
        self._order += 1
        return self._order

    def adopt(self, formed: Round, now: float) -> None:
        """This round is durable: from now on it is the present one."""
        self._fruitless, self._failed = self._failed and self._stale_at < self._formed_at + QUICK, False
        self._formed_at = now
        self._before = len(self.round.members) if self.round else 0
        self.round, self.stale = formed, ""
        self._member_ids = frozenset(self._members())
        for agent in self.agents.values():
            if agent.id in self._member_ids:
                agent.adopted(formed)

    # ---- decisions

    def decide(self, now: float) -> Decision:
        self._forget(now)
        if self.round and self.round.over:
            return Decision()
        if self.round and self._complete(now):
            return Decision(Round(self.run, self.round.number, self.round.members, over=True))
        self._check_round(now)
        formed = self._form(now)
        return Decision(formed, None if formed else min((at for at in self._times() if at > now), default=None))

    def messages(self, agents: Iterable[str], now: float) -> dict[str, ServiceMessage]:
        """The message that each of these agents should have now; one that is left out needs none."""
        wait = Wait(self._why_waiting(now), self.round.number if self.round else 0)
        found = {agent: self._message(self.agents[agent], wait, now) for agent in agents}
        return {agent: message for agent, message in found.items() if message is not None}

    def _message(self, agent: Agent, wait: Wait, now: float) -> ServiceMessage | None:
        if self.round and self.round.over:
            return Over()
        if agent.refused:
            return Refused(agent.refused)
        if agent.waits:
            return wait
        if self.round is None or agent.id not in self._member_ids or self.round.number != agent.round:
            number = self.round.number if self.round else 0
            return Stale(agent.round, f"round {number} formed without it") if agent.round else None
        if agent.failure and agent.failure.round == agent.round:
            return self._cause_of_failure(agent, now)
        return Stale(agent.round, self.stale) if self.stale else Formed(self.round)

    # ---- whether the round holds

    def _check_round(self, now: float) -> None:
        if self.round is None or self.stale:
            return
        departed, failures = next(self._departures(now), ""), list(self._failures())
        self._count_failures(failures, now)
        failed = f"a worker of {failures[0].id} failed" if failures and not self._others_may_fail(failures, now) else ""
        self.stale = departed or failed or self._admit_joiners(now)
        if self.stale:
            self._stale_at, self._failed = now, bool(failed and not departed)

    def _count_failures(self, failures: list[Agent], now: float) -> None:
        quick = now < self._formed_at + QUICK
        if self.round and quick and self._pods.fail_fast and failures and len(failures) == len(self._members()):
            before = self.repeated.cause
            self.repeated.round_failed(self.round.number, failures)
            if self.repeated.cause is not before:
                self._hopeless_at = now

    def _others_may_fail(self, failures: list[Agent], now: float) -> bool:
        """A script that cannot work fails everywhere. Whoever failed first waits as long anyway, to hear whose fault it
        was: until then the others are left to show what becomes of them."""
        own = all(agent.failure and agent.failure.code in OWN_CODES for agent in failures)
        young = self._pods.fail_fast and now < self._formed_at + QUICK
        waits = now < min(agent.since for agent in failures) + SETTLE
        return own and young and waits and len(failures) < len(self._members())

    def _departures(self, now: float, besides: str = "") -> Iterator[str]:
        """Which members of the round are in it no longer, and why."""
        for agent in self._members():
            known = self.agents.get(agent)
            if agent == besides or self._ended_well(agent):
                continue
            if reason := self.absent(agent, now):
                yield reason
            elif known and known.waits:
                yield f"{agent} waits for the next round"

    def _admit_joiners(self, now: float) -> str:
        joiners, size = self._joiners(now), len(self._survivors(now))
        free = self._maximum() - size
        if not joiners or free <= 0 or not size or self._changing():
            return ""
        complete = len(joiners) >= free or size + len(joiners) >= self._expected()
        if not complete and now < self._window_end(joiners):
            return ""
        return f"{', '.join(agent.id for agent in joiners[:free])} joined"

    def _changing(self) -> bool:
        """Members that live on are still on their way into this round: another one now would keep them from it."""
        return any(agent.idle for agent in self.agents.values() if agent.id in self._member_ids)

    def _cause_of_failure(self, agent: Agent, now: float) -> FailureCause | None:
        if agent.in_place:
            return FailureCause(agent.round, True, "its workers outlive the end of their peers")
        failures = list(self._failures())
        if self._others_may_fail(failures, now):
            return None  # whoever hears the cause regroups, and that ends the round of the others
        return failure_cause(
            agent,
            [other for other in failures if other.id != agent.id],
            departed=next(self._departures(now, besides=agent.id), ""),
            members=len(self._members()),
            repeated=self._fruitless and now < self._formed_at + QUICK,
            now=now,
        )

    # ---- members of the next round

    def _form(self, now: float) -> Round | None:
        if self.round is not None and not self.stale:
            return None
        if self._pods.fail_fast and now < self._hopeless_at + HOPELESS:
            return None
        awaited = self._awaited(now)
        here = [agent for agent in awaited if self._waits(agent)]
        if len(here) < len(awaited) and now < self._stale_at + STRAGGLER:
            return None
        joiners = self._joiners(now)
        agents = self._living_first([*here, *(agent.id for agent in joiners if agent.id not in here)], awaited)
        if len(agents) < self._minimum() or not agents:
            return None
        if not here and len(agents) < self._expected() and now < self._window_end(joiners):
            return None
        waits = {agent: waits for agent in agents if (waits := self.agents[agent].waits)}
        members = assign_ranks(self.round, agents, {agent: wait.endpoint for agent, wait in waits.items()})
        in_place = any(wait.in_place for wait in waits.values())
        return Round(self.run, self._number() + 1, members, in_place=in_place)

    def _awaited(self, now: float) -> list[str]:
        """Members without whom the next round does not form. Where workers live on, those that have to start first do
        not keep them from training: they come in when they are ready."""
        survivors = self._survivors(now)
        living = [agent for agent in survivors if (known := self.agents.get(agent)) is None or known.lives]
        return living if any(self._in_place(agent) for agent in living) else survivors

    def _in_place(self, agent: str) -> bool:
        known = self.agents.get(agent)
        return bool(known and known.in_place)

    def _living_first(self, agents: list[str], awaited: list[str]) -> list[str]:
        """Whoever the next round is made of. Workers that lost a peer do not wait for others to start."""
        agents = agents[: self._maximum()]
        living = [agent for agent in agents if (waits := self.agents[agent].waits) and waits.in_place]
        disturbed = len(awaited) < len(self._members()) or self._broken()
        return living if disturbed and living and len(living) >= self._minimum() else agents

    def _number(self) -> int:
        """Above anything that anybody has seen, even if what was stored got lost."""
        return max([self.round.number if self.round else 0, *(agent.round for agent in self.agents.values())])

    # ---- timers and reasons

    def _times(self) -> Iterator[float]:
        """Times at which the decision may change without any event."""
        yield self.led_since + GRACE
        yield self._stale_at + STRAGGLER
        yield self._hopeless_at + HOPELESS
        for agent in self.agents.values():
            if not agent.connected:
                yield agent.lost_at + agent.hello.linger
            if agent.waits:
                yield agent.since + agent.hello.window
            if agent.failure:
                yield agent.since + SETTLE

    def _forget(self, now: float) -> None:
        """Agents that are not in the round and will not come back."""
        for agent in [agent for agent in self.agents if agent not in self._member_ids]:
            if not self.agents[agent].connected and self.absent(agent, now):
                del self.agents[agent]

    def _why_waiting(self, now: float) -> str:
        """Stable while nothing changes, so that it is sent once."""
        survivors = self._survivors(now)
        late = [agent for agent in survivors if self.stale and not self._waits(agent)]
        if late:
            return f"waiting for {', '.join(late)} to stop its workers"
        if not self.stale and len(survivors) >= self._maximum():
            return f"the round has its {self._maximum()} members, this one stands by"
        here = len(survivors) + len(self._joiners(now))
        if here < self._minimum():
            return f"{here} of at least {self._minimum()} are here"
        if self.stale or here >= self._expected():
            return "all are here, the round is being written down"
        return f"{here} of {self._expected()} planned are here, the others have {self._window()} s"
