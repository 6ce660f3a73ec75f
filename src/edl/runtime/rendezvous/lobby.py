"""Who is there, whether the present round still holds, and when the next one forms. Pure: time is an argument.

A round is *stale* as soon as one of its members is gone, left, failed or waits for the next one, or when joiners are to
be let in. Members learn it at once, stop their workers and wait. The next round forms the moment that every member
that is left waits: nobody waits for those who may still come, except

- joiners for each other, for `window` seconds at most, before they interrupt a round that holds;
- everybody for the size that the operator has planned, `window` seconds at most, while there is no one to keep waiting.

That somebody is gone is known from the operator (its pod), from its own word, or from its connection: one that broke is
believed when it is not back after `linger` seconds, at once if another member's worker failed too. A new leader takes
everybody for present until `GRACE` has passed: a change of leader is no reason to regroup.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .messages import (
    Failed,
    Finished,
    Formed,
    Hello,
    Leaving,
    Over,
    Report,
    Stale,
    Verdict,
    Wait,
    Waiting,
    Word,
)
from .rounds import Round, pod_of, seat

GRACE = 15.0
SETTLE = 2.0  # how long a failure that may be another's fault waits for word of that other
QUICK = 60.0  # a round that fails sooner than this did not get anywhere
STRAGGLER = 45.0  # torchrun gives workers 30 s to stop; whoever takes longer than this misses the round


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

    @property
    def id(self) -> str:
        return self.hello.agent


@dataclass
class Pods:
    """What the operator knows: which pods exist (None: not known), which were asked to go, how many are planned, and
    the job's present minimum and maximum (None: it does not say)."""

    present: frozenset[str] | None = None
    leaving: frozenset[str] = frozenset()
    target: int = 0
    bounds: tuple[int, int] | None = None


@dataclass
class Plan:
    """What is to be done: a round to be made durable and then announced, and when to look again at the latest."""

    round: Round | None = None
    look_at: float | None = None


@dataclass
class Lobby:
    run: str
    led_since: float
    round: Round | None = None
    agents: dict[str, Agent] = field(default_factory=dict)
    stale: str = ""
    """Why the present round is over, once it is: it never holds again, since members may have acted on it."""
    _stale_at: float = 0.0
    _formed_at: float = 0.0
    _failed: bool = False
    """The present round is over because a worker failed."""
    _fruitless: bool = False
    """The round before the present one failed soon after it had formed."""
    _pods: Pods = field(default_factory=Pods)
    _seen: set[str] = field(default_factory=set)
    _order: int = 0
    _seated: frozenset[str] = frozenset()
    """The members of the round, to look up."""

    def __post_init__(self) -> None:
        self._seated = frozenset(self._members())

    # ---- what happens

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

    def observe(self, pods: Pods) -> None:
        self._pods = pods
        self._seen |= pods.present or frozenset()

    def report(self, agent: str, report: Report, now: float) -> None:
        known = self.agents[agent]
        if isinstance(report, Leaving):
            known.left = known.left or report.reason
        elif isinstance(report, Waiting):
            self._wait(known, report, now)
        else:
            known.waits, known.round = None, report.round
            if isinstance(report, Failed) and (known.failure is None or known.failure.round != report.round):
                known.failure, known.since, known.order = report, now, self._next()
            elif isinstance(report, Finished):
                known.finished = report.round

    def _wait(self, agent: Agent, report: Waiting, now: float) -> None:
        if self.round and agent.id in self._seated and self.round.number > report.after:
            agent.round = self.round.number  # it was given a seat already and has not heard of it
            return
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
        self.round, self.stale = formed, ""
        self._seated = frozenset(self._members())
        for agent in self.agents.values():
            if agent.id in self._seated:
                agent.waits, agent.failure, agent.round = None, None, formed.number

    # ---- what follows from it

    def decide(self, now: float) -> Plan:
        self._forget(now)
        if self.round and self.round.over:
            return Plan()
        if self.round and self._complete(now):
            return Plan(Round(self.run, self.round.number, self.round.members, over=True))
        self._notice(now)
        formed = self._form(now)
        return Plan(formed, None if formed else min((at for at in self._times() if at > now), default=None))

    def words(self, agents: Iterable[str], now: float) -> dict[str, Word]:
        """What each of these has to know now; whoever is not in the answer has nothing to hear."""
        wait = Wait(self._why_waiting(now))
        said = {agent: self._word(self.agents[agent], wait, now) for agent in agents}
        return {agent: word for agent, word in said.items() if word is not None}

    def _word(self, agent: Agent, wait: Wait, now: float) -> Word | None:
        if self.round and self.round.over:
            return Over()
        if agent.waits:
            return wait
        if self.round is None or agent.id not in self._seated or self.round.number != agent.round:
            number = self.round.number if self.round else 0
            return Stale(agent.round, f"round {number} formed without it") if agent.round else None
        if agent.failure and agent.failure.round == agent.round:
            return self._verdict(agent, now)
        return Stale(agent.round, self.stale) if self.stale else Formed(self.round)

    def absent(self, agent: str, now: float) -> str:
        """Why a member of the round is not there any more; empty if it is, or if that is not certain yet."""
        known, pod = self.agents.get(agent), pod_of(agent)
        if known and known.left:
            return known.left
        if pod in self._pods.leaving:
            return f"pod {pod} was asked to leave"
        if self._pods.present is not None and pod not in self._pods.present and pod in self._seen:
            return f"pod {pod} is gone"
        if known is None:
            return f"{agent} did not come back" if now >= self.led_since + GRACE else ""
        if known.connected:
            return ""
        if any(other.id != agent for other in self._failures()):
            return f"the connection of {agent} broke and another's worker failed"
        return f"no connection to {agent}" if now >= known.lost_at + known.hello.linger else ""

    def _failures(self) -> Iterator[Agent]:
        """Members whose worker failed in the present round."""
        for agent in self.agents.values():
            if self.round and agent.failure and agent.failure.round == self.round.number and agent.id in self._seated:
                yield agent

    def _members(self) -> list[str]:
        return [member.agent for member in self.round.members] if self.round else []

    def _ended_well(self, agent: str) -> bool:
        known = self.agents.get(agent)
        return bool(known and self.round and known.finished == self.round.number)

    def _complete(self, now: float) -> bool:
        ended = [agent for agent in self._members() if self._ended_well(agent)]
        return bool(ended) and all(agent in ended or self.absent(agent, now) for agent in self._members())

    def _survivors(self, now: float) -> list[str]:
        """Members that are still to be counted on, by rank."""
        return [agent for agent in self._members() if not self._ended_well(agent) and not self.absent(agent, now)]

    def _joiners(self, now: float) -> list[Agent]:
        """Who waits without having been in the present round, first come first."""
        waiting = (agent for agent in self.agents.values() if agent.waits and agent.connected)
        fresh = (agent for agent in waiting if agent.id not in self._seated)
        return sorted((agent for agent in fresh if not self.absent(agent.id, now)), key=lambda agent: agent.order)

    # ---- does the round hold?

    def _notice(self, now: float) -> None:
        if self.round is None or self.stale:
            return
        departed = next(self._departures(now), "")
        failed = next((f"a worker of {agent.id} failed" for agent in self._failures()), "")
        self.stale = departed or failed or self._let_in(now)
        if self.stale:
            self._stale_at, self._failed = now, bool(failed and not departed)

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

    def _let_in(self, now: float) -> str:
        joiners, size = self._joiners(now), len(self._survivors(now))
        room = self._maximum() - size
        if not joiners or room <= 0 or not size:
            return ""
        complete = len(joiners) >= room or size + len(joiners) >= self._expected()
        if not complete and now < self._window_end(joiners):
            return ""
        return f"{', '.join(agent.id for agent in joiners[:room])} joined"

    def _verdict(self, agent: Agent, now: float) -> Verdict | None:
        """A signal is one's own misfortune. Otherwise whoever failed first is taken for the cause, unless another
        cause comes up while it waits: a peer that dies makes workers fail before anybody hears of its death. If the
        round before has just failed like this one, the cause is in the script, and nobody is spared."""
        assert agent.failure is not None
        number, failures = agent.failure.round, [other for other in self._failures() if other.id != agent.id]
        if agent.failure.hard:
            return Verdict(number, True, "its worker was ended by a signal")
        if departed := next(self._departures(now, besides=agent.id), ""):
            return Verdict(number, False, departed)
        hard = next((other for other in failures if other.failure and other.failure.hard), None)
        first = min(failures, key=lambda other: other.order, default=agent)
        if hard is None and self._fruitless and now < self._formed_at + QUICK:
            return Verdict(number, True, "it failed again, like the round before")
        if hard or first.order < agent.order:
            return Verdict(number, False, f"a worker of {(hard or first).id} failed before")
        settled = len(failures) + 1 == len(self._members()) or now >= agent.since + SETTLE
        return Verdict(number, True, "nobody else failed before") if settled else None

    # ---- who is in the next one?

    def _form(self, now: float) -> Round | None:
        if self.round is not None and not self.stale:
            return None
        survivors = self._survivors(now)
        here = [agent for agent in survivors if self._waits(agent)]
        if len(here) < len(survivors) and now < self._stale_at + STRAGGLER:
            return None
        joiners = self._joiners(now)
        agents = [*here, *(agent.id for agent in joiners)][: self._maximum()]
        if len(agents) < self._minimum() or not agents:
            return None
        if not here and len(agents) < self._expected() and now < self._window_end(joiners):
            return None
        endpoints = {agent: waits.endpoint for agent in agents if (waits := self.agents[agent].waits)}
        return Round(self.run, self._number() + 1, seat(self.round, agents, endpoints))

    def _waits(self, agent: str) -> bool:
        known = self.agents.get(agent)
        return bool(known and known.waits and known.connected)

    def _number(self) -> int:
        """Above anything that anybody has seen, even if what was stored got lost."""
        return max([self.round.number if self.round else 0, *(agent.round for agent in self.agents.values())])

    def _newest(self) -> Hello | None:
        """Whose idea of minimum, maximum and window counts: that of the pod that was made last."""
        waiting = [agent for agent in self.agents.values() if agent.waits] or list(self.agents.values())
        return max(waiting, key=lambda agent: agent.order).hello if waiting else None

    def _bounds(self) -> tuple[int, int]:
        newest = self._newest()
        if newest is None:
            return 1, 1
        own = newest.minimum, newest.maximum
        return self._pods.bounds or own if newest.follows else own

    def _minimum(self) -> int:
        """After somebody has finished there may never again be as many; the rest may finish too."""
        finished = any(agent.finished for agent in self.agents.values())
        return 1 if finished else self._bounds()[0]

    def _maximum(self) -> int:
        return self._bounds()[1]

    def _expected(self) -> int:
        return max(self._minimum(), min(self._pods.target or self._maximum(), self._maximum()))

    def _window_end(self, joiners: list[Agent]) -> float:
        return min((agent.since + agent.hello.window for agent in joiners), default=0.0)

    # ---- time and words

    def _times(self) -> Iterator[float]:
        """Moments at which something may follow from nothing but the time that passed."""
        yield self.led_since + GRACE
        yield self._stale_at + STRAGGLER
        for agent in self.agents.values():
            if not agent.connected:
                yield agent.lost_at + agent.hello.linger
            if agent.waits:
                yield agent.since + agent.hello.window
            if agent.failure:
                yield agent.since + SETTLE

    def _forget(self, now: float) -> None:
        """Agents that are not in the round and will not come back."""
        for agent in [agent for agent in self.agents if agent not in self._seated]:
            if not self.agents[agent].connected and self.absent(agent, now):
                del self.agents[agent]

    def _why_waiting(self, now: float) -> str:
        """Stable while nothing changes, so that it is said once."""
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

    def _window(self) -> str:
        newest = self._newest()
        return f"{newest.window:g}" if newest else "0"
