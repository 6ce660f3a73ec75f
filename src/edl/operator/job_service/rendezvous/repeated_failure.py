"""Counts rounds of a rendezvous in which every member's workers failed alike soon after their start. In memory.

What such a count means is `edl.jobs.core.pods.fail_fast`'s to say.
"""

from collections.abc import Sequence

from edl.api.status import RootCause
from edl.jobs.core.pods.fail_fast import ROUNDS, FailureKind, failure_kind
from edl.operator.job_service.rendezvous.members import Agent
from edl.protocol.rounds import pod_of


class RepeatedFailure:
    def __init__(self) -> None:
        self.cause: RootCause | None = None
        """The first failure of the last round, once there were enough of them."""
        self._kind: FailureKind | None = None
        self._round, self._count = 0, 0

    def round_failed(self, number: int, failures: Sequence[Agent]) -> None:
        """All members of this round have failed, soon after it formed. Said again it changes nothing."""
        if number == self._round:
            return
        kinds = {failure_kind(one.failure.code, one.failure.message) for one in failures if one.failure is not None}
        kind = kinds.pop() if len(kinds) == 1 else None
        alike = kind is not None and kind == self._kind and number == self._round + 1
        self._count = self._count + 1 if alike else 1
        self._kind, self._round = kind, number
        if kind is not None and self._count >= ROUNDS:
            self.cause = _cause(min(failures, key=lambda agent: agent.order))


def _cause(agent: Agent) -> RootCause:
    assert agent.failure is not None
    return RootCause(pod=pod_of(agent.id), exit_code=agent.failure.code, reason="Error", message=agent.failure.message)
