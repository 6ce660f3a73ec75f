"""Decides who has to go when members of a round reach the job service but not each other. Pure.

Once may be chance: a pair counts when it was told of in several rounds. Then those go whom most others cannot reach,
the highest ranks first, until all who are left can reach each other. Whoever goes fails, is replaced elsewhere, and the
rules for failures end what cannot be mended.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from edl.protocol.rendezvous import Waiting

ROUNDS = 2  # in which a pair did not reach each other before one of them has to go

Pair = frozenset[str]


@dataclass
class Unreached:
    _rounds: dict[Pair, set[int]] = field(default_factory=dict)
    """In which rounds each pair of agents did not reach each other."""

    def complain(self, agent: str, report: Waiting, members: Sequence[str]) -> None:
        """Only of members of the present round, by one of them: an agent may name anybody."""
        known = set(members)
        self._rounds = {pair: rounds for pair, rounds in self._rounds.items() if pair <= known}
        if agent in known:
            for other in known.intersection(report.unreached) - {agent}:
                self._rounds.setdefault(frozenset((agent, other)), set()).add(report.after)

    def shut_out(self, members: Sequence[str]) -> dict[str, str]:
        """Who has to go, and why."""
        pairs = [pair for pair, rounds in self._rounds.items() if len(rounds) >= ROUNDS and pair <= set(members)]
        out: dict[str, str] = {}
        while pairs:
            worst = max(members, key=lambda agent: (sum(agent in pair for pair in pairs), members.index(agent)))
            others = sorted(other for pair in pairs if worst in pair for other in pair if other != worst)
            out[worst] = f"{worst} and {', '.join(others)} do not reach each other"
            pairs = [pair for pair in pairs if worst not in pair]
        return out
