"""The last words of pods that ended, in the job's status: pods go, and on a cluster their logs go with them.

A few of the newest, a few hundred characters each: a status is read and written as a whole. What is known of the same
pods gives the same entries however often it is looked at, so a second look at the same world writes nothing. Nothing
is decided by them, so a change of them alone may wait for others.
"""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from edl.api.kubernetes import timestamp
from edl.api.status import EndedPod
from edl.jobs.core.outcome import Outcome
from edl.jobs.core.pods.slots import SlotPod

MOST = 5
LENGTH = 300  # characters of a message: the last ones, where an exception is


def with_ended_pods(outcome: Outcome, old: Any, pods: Iterable[SlotPod], kind: type[EndedPod] = EndedPod) -> Outcome:
    """The outcome with those pods in its status. `old` is the status as it stands, `kind` how it spells an entry."""
    kept: tuple[EndedPod, ...] = old.ended_pods
    found = [_entry(pod, kind) for pod in pods if _has_words(pod)]
    if found:
        kept = newest(kept, found)
    if outcome.status.ended_pods == kept:
        return outcome
    return replace(outcome, status=replace(outcome.status, ended_pods=kept))


def newest(known: Iterable[EndedPod], found: Iterable[EndedPod]) -> tuple[EndedPod, ...]:
    """What was found of a pod takes the place of what was known; the newest are last."""
    by_name = {one.pod: one for one in known} | {one.pod: one for one in found}
    return tuple(sorted(by_name.values(), key=lambda one: (one.time or "", one.pod))[-MOST:])


def _has_words(pod: SlotPod) -> bool:
    """Whether it ended badly and says how. One that was asked to go, and went, has nothing to explain."""
    return pod.state in ("failed", "lost") and not pod.leaving and bool(pod.message or pod.reason)


def _entry(pod: SlotPod, kind: type[EndedPod]) -> EndedPod:
    return kind(
        pod=pod.name,
        exit_code=pod.exit_code,
        reason=pod.reason,
        message=pod.message[-LENGTH:].strip(),
        time=timestamp.text(pod.ended or pod.started or pod.created),
    )
