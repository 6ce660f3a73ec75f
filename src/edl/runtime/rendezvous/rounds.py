"""A round: the agents that train together, each with its rank. Pure."""

from collections.abc import Mapping, Sequence

import msgspec


class Member(msgspec.Struct, frozen=True):
    """`agent` is POD/PROCESS, `endpoint` where the store that it made for this round listens."""

    agent: str
    endpoint: str


class Round(msgspec.Struct, frozen=True):
    """`members` are in the order of their ranks. `over`: this was the last one, the training is finished."""

    run: str
    number: int
    members: tuple[Member, ...] = ()
    over: bool = False

    def rank(self, agent: str) -> int | None:
        return next((rank for rank, member in enumerate(self.members) if member.agent == agent), None)

    def __contains__(self, agent: str) -> bool:
        return self.rank(agent) is not None


def pod_of(agent: str) -> str:
    return agent.partition("/")[0]


def seat(previous: Round | None, agents: Sequence[str], endpoints: Mapping[str, str]) -> tuple[Member, ...]:
    """Members by rank: whoever had a rank that still exists keeps it, the others fill the gaps in the order given."""
    seats: list[str | None] = [None] * len(agents)
    for agent in agents:
        rank = previous.rank(agent) if previous else None
        if rank is not None and rank < len(seats):
            seats[rank] = agent
    moved = iter([agent for agent in agents if agent not in seats])
    filled = [agent if agent is not None else next(moved) for agent in seats]
    return tuple(Member(agent, endpoints[agent]) for agent in filled)
