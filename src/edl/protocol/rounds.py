"""A round: the agents that train together, each with its rank. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """`agent` is POD/PROCESS, `endpoint` where the store that it made for this round listens."""

    agent: str
    endpoint: str


@dataclass(frozen=True)
class Round:
    """`members` are in the order of their ranks. `over`: this was the last one, the training is finished.

    `in_place`: some members' workers live and train on until all others of the round are ready."""

    run: str
    number: int
    members: tuple[Member, ...] = ()
    over: bool = False
    in_place: bool = False

    def rank(self, agent: str) -> int | None:
        return next((rank for rank, member in enumerate(self.members) if member.agent == agent), None)

    def __contains__(self, agent: str) -> bool:
        return self.rank(agent) is not None


@dataclass(frozen=True)
class RoundChange:
    """How a round came to train in the place of another: of how many agents, which way, and what it cost.

    `lost`: steps that have to be made again, -1 if only the script knows. `sent`: bytes of state to those who had it
    not."""

    run: str
    number: int
    before: int
    after: int
    in_place: bool
    pause: float
    lost: int
    sent: int


def pod_of(agent: str) -> str:
    return agent.partition("/")[0]


def assign_ranks(previous: Round | None, agents: Sequence[str], endpoints: Mapping[str, str]) -> tuple[Member, ...]:
    """Members by rank: an agent whose rank still exists keeps it, the others fill the gaps in the order given."""
    ranks: list[str | None] = [None] * len(agents)
    for agent in agents:
        rank = previous.rank(agent) if previous else None
        if rank is not None and rank < len(ranks):
            ranks[rank] = agent
    others = iter([agent for agent in agents if agent not in ranks])
    filled = [agent if agent is not None else next(others) for agent in ranks]
    return tuple(Member(agent, endpoints[agent]) for agent in filled)
