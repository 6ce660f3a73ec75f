"""Decides whether a failed worker was the fault of its own agent, or a consequence of another's end. Pure.

When a peer dies, the workers of all others fail as well, often before anybody has heard of the death.
"""

from collections.abc import Sequence

from edl.operator.job_service.rendezvous.members import Agent
from edl.protocol.rendezvous import FailureCause

SETTLE = 2.0  # how long a failure that may be another's fault waits for news of that other


def failure_cause(
    agent: Agent, others: Sequence[Agent], *, departed: str, members: int, repeated: bool, now: float
) -> FailureCause | None:
    """None while it is not clear. `others` are the other members that failed, `departed` why a member is gone.

    A signal is one's own fault. Otherwise whoever failed first is taken for the cause, unless another cause comes up
    while it waits. `repeated`: the round before has just failed like this one; then the cause is in the script, and
    everybody's.
    """
    assert agent.failure is not None
    number = agent.failure.round
    if agent.failure.hard:
        return FailureCause(number, True, "its worker was ended by a signal")
    if departed:
        return FailureCause(number, False, departed)
    hard = next((other for other in others if other.failure and other.failure.hard), None)
    first = min(others, key=lambda other: other.order, default=agent)
    if hard is None and repeated:
        return FailureCause(number, True, "it failed again, like the round before")
    if hard or first.order < agent.order:
        return FailureCause(number, False, f"a worker of {(hard or first).id} failed before")
    settled = len(others) + 1 == members or now >= agent.since + SETTLE
    return FailureCause(number, True, "nobody else failed before") if settled else None
