"""Failure rules of slots: when a pod counts as failed, how soon the next one may follow, when a slot is given up.

Each end counts once, however often it is observed: what was counted is in the record before anything is done.
"""

from collections.abc import Callable, Collection, Sequence

import msgspec
from msgspec.structs import replace

from edl.api.status import RootCause
from edl.jobs.core.pods.slot_history import Ledger
from edl.jobs.core.pods.slots import SlotPod

RESET_AFTER = 600.0  # a pod that ran this long starts the count of its slot's failures anew
REFUSED_PAUSE = 5.0  # a pod that a node refused before it ran is not followed by the next one sooner than this
FIRST_PAUSE = 1.0
"""From the second failure in a row the next pod starts this long after the last one did, then twice as long each time.

From start to start: whoever ran for longer than the pause, or was lost, is followed at once, and still a program that
ends as soon as it starts is started less and less often."""
LONGEST_PAUSE = 300.0
NO_LIMIT = 2**31 - 1
STALLED = "Stalled"


class Rules(msgspec.Struct, frozen=True):
    """When a slot whose pods fail by themselves is given up: at `limit` in a row, or at a `permanent` exit code."""

    limit: int = 6
    permanent: tuple[int, int] | None = None
    again: bool = False
    """A pod that finished well is followed by the next one, too."""
    equals: bool = False
    """Pods are equals. The first that finishes well says that the work is done: nothing new is begun, the others may
    end. A slot that is given up ends nothing by itself; in a shrink such slots go first, and may come back."""


class Failure(msgspec.Struct, frozen=True):
    """A pod that failed by itself, now counted. `final`: its slot is given up."""

    pod: SlotPod
    count: int
    final: bool


def account(
    pods: Sequence[SlotPod], ledger: Ledger, rules: Rules, stalled: Collection[str] = frozenset()
) -> list[Failure]:
    """Enter every end that is new. Pods whose uid is in `stalled` run, but get nowhere: that is an end, too."""
    failures: list[Failure] = []
    for pod in pods:
        slot = ledger.slot(pod.index)
        hangs = pod.live and pod.uid in stalled
        if (pod.live and not hangs) or pod.attempt <= slot.ended or pod.index in ledger.done:
            continue
        count = 1 if pod.ran >= RESET_AFTER else slot.failures + 1
        if pod.state == "succeeded" and not pod.leaving:
            ledger.ended(pod.index, pod.attempt, pod.ran, failures=count if rules.again else None)
            if not rules.again:
                ledger.done.add(pod.index)
        elif hangs or (pod.state == "failed" and not pod.leaving):
            final = count >= rules.limit or _permanent(pod, rules)
            ledger.ended(pod.index, pod.attempt, pod.ran, failures=max(count, rules.limit) if final else count)
            ledger.failed += 1
            failures.append(Failure(replace(pod, state="failed", reason=STALLED) if hangs else pod, count, final))
        else:
            ledger.ended(pod.index, pod.attempt, pod.ran)
    return failures


def _permanent(pod: SlotPod, rules: Rules) -> bool:
    if rules.permanent is None or pod.exit_code is None:
        return False
    first, last = rules.permanent
    return first <= pod.exit_code <= last


def root_cause(given_up: Sequence[SlotPod | int], slot: Callable[[int], str]) -> RootCause:
    """The pod that failed first among those whose slots are given up (an index stands for one whose pod is gone).

    `slot`: from an index to the slot's name.
    """
    pods = [pod for pod in given_up if isinstance(pod, SlotPod)]
    if not pods:
        return RootCause(pod=slot(next(one for one in given_up if isinstance(one, int))))
    return cause_of(min(pods, key=lambda pod: pod.ended or pod.created))


def cause_of(pod: SlotPod) -> RootCause:
    return RootCause(pod=pod.name, exit_code=pod.exit_code, reason=pod.reason, message=pod.message)


def not_before(pod: SlotPod | None, failures: int) -> float:
    """When the pod's successor may be made. What nobody refused and what did not fail twice is followed at once."""
    if pod is None or pod.leaving:
        return 0.0
    if pod.state == "lost" and pod.started is None:
        return pod.created + REFUSED_PAUSE
    if failures < 2 or pod.state not in ("failed", "succeeded"):
        return 0.0
    pause: float = FIRST_PAUSE * 2.0 ** min(failures - 2, 30)
    return (pod.started or pod.created) + min(pause, LONGEST_PAUSE)
