"""Restarts of containers in pods that no slot of ours holds: those of a ReplicaSet or a StatefulSet.

Their node starts a container that has ended again, in the same pod, later each time. Such a pod runs only while its
container does, and not in the moment between two crashes. How often a container has ended its node counts, for ever;
what no longer counts, because the container ran for a while since, is in the job's status.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import Pod, Terminated
from edl.jobs.core.pods.failures import RESET_AFTER
from edl.jobs.core.pods.slots import CRASH_LOOP, MESSAGE_LENGTH, SlotPod, last_words, read, role_container

STEADY_AFTER = 10.0
"""A container that ended sooner than this after its start counts as running again when it has run so long."""


class RestartingPod(msgspec.Struct, frozen=True):
    """`ends`: how often its container has ended. `forgiven`: how many of these no longer count."""

    seen: SlotPod
    ends: int = 0
    forgiven: int = 0
    cause: SlotPod | None = None
    """As it was when its container ended last."""
    requeue_at: float | None = None
    """When time alone will change what is said here."""

    @property
    def failures(self) -> int:
        return self.ends - self.forgiven


def observe_restarts(pod: Pod, forgiven: int, now: float) -> RestartingPod:
    seen, own = read(pod, now), role_container(pod)
    if own is None or not seen.live:
        return RestartingPod(seen)
    last = own.state.terminated or own.last_state.terminated
    ends = own.restart_count + (1 if own.state.running is None and last is not None else 0)
    if last is None or ends == 0:
        return RestartingPod(seen)
    if _lasted(last) >= RESET_AFTER:
        forgiven = max(forgiven, ends - 1)
    if own.state.running is None:
        return RestartingPod(replace(seen, state="pending", ready=False), ends, forgiven, _cause(seen, last))
    return _running_again(seen, last, ends, forgiven, now)


def _running_again(seen: SlotPod, last: Terminated, ends: int, forgiven: int, now: float) -> RestartingPod:
    started = seen.started or seen.created
    steady, anew = started + STEADY_AFTER, started + RESET_AFTER
    if now >= anew:
        return RestartingPod(seen, ends, ends)
    later = anew if ends > forgiven else None
    if _lasted(last) >= STEADY_AFTER or now >= steady:
        return RestartingPod(seen, ends, forgiven, requeue_at=later)
    looping = replace(seen, state="pending", ready=False, reason=CRASH_LOOP, message=last_words(last))
    return RestartingPod(looping, ends, forgiven, _cause(seen, last), steady)


def given_up(pods: Mapping[str, list[RestartingPod]], limit: int) -> tuple[str, RestartingPod] | None:
    """Role and pod of the first, in the order of roles, that has failed so often in a row, if it is not up again."""
    for role, found in pods.items():
        for pod in found:
            if pod.cause is not None and pod.failures >= limit:
                return role, pod
    return None


def _cause(seen: SlotPod, ended: Terminated) -> SlotPod:
    reason = "" if ended.reason in ("Error", "Completed") else ended.reason
    message = ended.message[-MESSAGE_LENGTH:].strip()
    return replace(seen, state="failed", exit_code=ended.exit_code, reason=reason, message=message)


def _lasted(ended: Terminated) -> float:
    if not ended.started_at or not ended.finished_at:
        return 0.0
    return timestamp.seconds(ended.finished_at) - timestamp.seconds(ended.started_at)
