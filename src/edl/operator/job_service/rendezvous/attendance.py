"""Tells who is here: which members of a round can still be counted on, who waits to join, how many there may be.

A member is absent when its pod is, when it said so, or when its connection broke and did not come back in time. A new
leader takes everybody for present until `GRACE` has passed, but whose pod has ended.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from edl.operator.job_service.rendezvous.members import Agent, Pods, round_change
from edl.operator.job_service.rendezvous.partition import Unreached
from edl.protocol.rendezvous import Hello, Waiting
from edl.protocol.rounds import Round, RoundChange, pod_of

GRACE = 15.0


@dataclass
class Attendance:
    run: str
    led_since: float
    round: Round | None = None
    agents: dict[str, Agent] = field(default_factory=dict)
    stale: str = ""
    """Why the present round is over, once it is: it never holds again, since members may have acted on it."""
    _pods: Pods = field(default_factory=Pods)
    _seen: set[str] = field(default_factory=set)
    _member_ids: frozenset[str] = frozenset()
    """The members of the round, to look up."""
    _before: int = 0
    """How many members the round before had; 0 if this leader has not seen it."""
    _unreached: Unreached = field(default_factory=Unreached)

    def __post_init__(self) -> None:
        self._member_ids = frozenset(self._members())

    def observe(self, pods: Pods) -> None:
        self._pods = pods
        self._seen |= pods.present or frozenset()

    @property
    def change(self) -> RoundChange | None:
        """How the present round came to train, once all of its members have said so."""
        known = [self.agents[agent].change for agent in self._members() if agent in self.agents]
        whole = self.round is not None and len(known) == len(self.round.members)
        return round_change(self.round, self._before, known) if self.round is not None and whole else None

    def _complain(self, agent: Agent, report: Waiting) -> None:
        """Members that cannot reach each other do not try for ever: those on one side have to go."""
        self._unreached.complain(agent.id, report, self._members())
        for other, reason in self._unreached.shut_out(self._members()).items():
            if known := self.agents.get(other):
                known.refused = known.left = known.left or reason

    def absent(self, agent: str, now: float) -> str:
        """Why a member of the round is not there any more; empty if it is, or if that is not certain yet."""
        known, pod = self.agents.get(agent), pod_of(agent)
        if known and known.left:
            return known.left
        if pod in self._pods.leaving:
            return f"pod {pod} was asked to leave"
        if pod in self._pods.failed:
            return f"pod {pod} has ended"
        if self._pods.present is not None and pod not in self._pods.present and pod in self._seen:
            return f"pod {pod} is gone"
        if known is None:
            return f"{agent} did not come back" if now >= self.led_since + GRACE else ""
        if known.connected:
            return ""
        if any(other.id != agent for other in self._failures()) or self._broken():
            return f"the connection of {agent} broke and another's worker failed"
        return f"no connection to {agent}" if now >= known.lost_at + known.hello.linger else ""

    def _failures(self) -> Iterator[Agent]:
        """Members whose worker failed in the present round."""
        number = self.round.number if self.round else None
        for agent in self.agents.values():
            if agent.failure and agent.failure.round == number and agent.id in self._member_ids:
                yield agent

    def _broken(self) -> bool:
        """Whether members that live on have lost a peer."""
        return any(agent.waits and agent.waits.broken for agent in self.agents.values() if agent.id in self._member_ids)

    def _members(self) -> list[str]:
        return [member.agent for member in self.round.members] if self.round else []

    def _ended_well(self, agent: str) -> bool:
        """As it said itself, or as its pod says to a leader that it said nothing to."""
        known = self.agents.get(agent)
        if known is None:
            return pod_of(agent) in self._pods.succeeded
        return bool(self.round and known.finished == self.round.number)

    def _complete(self, now: float) -> bool:
        ended = [agent for agent in self._members() if self._ended_well(agent)]
        return bool(ended) and all(
            agent in ended or self.absent(agent, now) or self._came_too_late(agent) for agent in self._members()
        )

    def _came_too_late(self, agent: str) -> bool:
        """Whether it was still starting when workers that live on had done all there was to do."""
        known = self.agents.get(agent)
        return bool(known and known.in_place and not known.ready)

    def _survivors(self, now: float) -> list[str]:
        """Members that are still to be counted on, by rank."""
        return [agent for agent in self._members() if not self._ended_well(agent) and not self.absent(agent, now)]

    def _joiners(self, now: float) -> list[Agent]:
        """Who waits without having been in the present round, first come first."""
        waiting = (agent for agent in self.agents.values() if agent.waits and agent.connected)
        fresh = (agent for agent in waiting if agent.id not in self._member_ids or (self.stale and not agent.lives))
        return sorted((agent for agent in fresh if not self.absent(agent.id, now)), key=lambda agent: agent.order)

    def _waits(self, agent: str) -> bool:
        known = self.agents.get(agent)
        return bool(known and known.waits and known.connected)

    # ---- how many there may be

    def _newest(self) -> Hello | None:
        """The greeting whose minimum, maximum and window count: that of the pod that was made last."""
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

    def _window(self) -> str:
        newest = self._newest()
        return f"{newest.window:g}" if newest else "0"
