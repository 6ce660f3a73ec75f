"""Conditions of a job: a stable code and a message, changed only when something changed.

A message alone may change with every reconcile in a busy cluster, so it is renewed at most once a minute; a cluster
at rest must see no write.
"""

from collections.abc import Iterable

from edl.api.kubernetes import timestamp
from edl.api.status import JobCondition

MESSAGE_INTERVAL = 60.0
MESSAGE_LENGTH = 1000


class Conditions:
    """The conditions of one status in the making, of one generation of its spec."""

    def __init__(self, old: Iterable[JobCondition], *, generation: int, now: float) -> None:
        self._known = {condition.type: condition for condition in old}
        self._generation = generation
        self._now = now

    def get(self, kind: str) -> JobCondition | None:
        return self._known.get(kind)

    def is_true(self, kind: str) -> bool:
        condition = self._known.get(kind)
        return condition is not None and condition.status == "True"

    def set(self, kind: str, holds: bool, reason: str, message: str = "", *, steady: bool = False) -> None:
        """`steady`: the message is one that is not reworded at every reconcile, so that it counts as it is."""
        status = "True" if holds else "False"
        message = message[:MESSAGE_LENGTH]
        old = self._known.get(kind)
        when = timestamp.text(self._now)
        if old is None or old.status != status:
            moved = when
        elif old.reason != reason or (old.message != message and (steady or self._may_refresh(old))):
            moved = old.last_transition_time or when
        else:
            return
        self._known[kind] = JobCondition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_update_time=when,
            last_transition_time=moved,
            observed_generation=self._generation,
        )

    def clear(self, kind: str, reason: str, message: str = "") -> None:
        """No longer so. What was never said need not be taken back."""
        if self.is_true(kind):
            self.set(kind, False, reason, message)

    def restore(self, kind: str, reason: str, message: str = "") -> None:
        """So again. What was never doubted need not be said."""
        known = self._known.get(kind)
        if known is not None and known.status != "True":
            self.set(kind, True, reason, message)

    def result(self) -> tuple[JobCondition, ...]:
        return tuple(self._known.values())

    def _may_refresh(self, old: JobCondition) -> bool:
        """What is said about a new generation of the spec is news at once, as often as users edit it."""
        return old.observed_generation != self._generation or self._now - said_at(old) >= MESSAGE_INTERVAL


def said_at(condition: JobCondition) -> float:
    return timestamp.seconds(condition.last_update_time) if condition.last_update_time else 0.0
