"""Standard conditions of a status (metav1.Condition), as the JSON that is written. Pure: time is an argument."""

from collections.abc import Sequence
from typing import Any, Literal

Condition = dict[str, Any]
State = Literal["True", "False", "Unknown"]


def find_condition(conditions: Sequence[Condition], kind: str) -> Condition | None:
    return next((condition for condition in conditions if condition["type"] == kind), None)


def set_condition(
    conditions: Sequence[Condition],
    kind: str,
    state: State,
    *,
    reason: str,
    message: str = "",
    now: str,
    generation: int | None = None,
) -> list[Condition]:
    """The conditions with this one set. lastTransitionTime moves only when the state does; the order stays.

    An equal condition changes nothing, so the result can be compared with what is there to decide whether to write.
    """
    old = find_condition(conditions, kind)
    since = old["lastTransitionTime"] if old and old["status"] == state and "lastTransitionTime" in old else now
    new: Condition = {"type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": since}
    if generation is not None:
        new["observedGeneration"] = generation
    if old is None:
        return [*conditions, new]
    return [new if condition is old else condition for condition in conditions]
