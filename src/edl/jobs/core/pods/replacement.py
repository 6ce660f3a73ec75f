"""Replacement of pods in a slot: one at a time, or a new one beside the old one until it is ready.

The pods of a slot are told apart by their attempt. A pod recorded as ended in the ledger has no future.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from edl.jobs.core.pods.slot_history import Ledger
from edl.jobs.core.pods.slots import SlotPod


def holders(
    pods: Sequence[SlotPod], ledger: Ledger, stale: frozenset[str] | None
) -> tuple[dict[int, SlotPod], dict[int, SlotPod], list[SlotPod]]:
    """Who holds which slot, who is to follow whom, and live pods without a future: superseded, or chosen to leave."""
    slots: dict[int, list[SlotPod]] = {}
    doomed: list[SlotPod] = []
    for pod in pods:  # in the order of attempts
        if not pod.live:
            continue
        if pod.attempt <= ledger.slot(pod.index).ended or pod.index in ledger.done:
            doomed.append(pod)
        else:
            slots.setdefault(pod.index, []).append(pod)
    live: dict[int, SlotPod] = {}
    coming: dict[int, SlotPod] = {}
    for index, found in slots.items():
        holder, follower = _succession(found, stale or frozenset())
        doomed += [pod for pod in found if pod not in (holder, follower)]
        if holder is not None:
            live[index] = holder
        if follower is not None:
            coming[index] = follower
    return live, coming, doomed


def _succession(pods: list[SlotPod], stale: frozenset[str]) -> tuple[SlotPod | None, SlotPod | None]:
    """Of the live pods of one slot the holder and its follower. A stale one that does not run serves nobody."""
    fresh = next((pod for pod in reversed(pods) if pod.uid not in stale), None)
    serving = next((pod for pod in reversed(pods) if pod.uid in stale and pod.state == "running"), None)
    if serving is None or (fresh is not None and fresh.ready):
        return fresh, None
    return serving, fresh


def failed_moves(pods: Sequence[SlotPod], ledger: Ledger) -> list[SlotPod]:
    """Pods that ended before they could follow the one before them, which goes on. Nothing is counted
    against it; but they must go, lest their end be counted when the pod before them ends, too."""
    first: dict[int, int] = {}
    for pod in pods:
        if pod.live and pod.attempt > ledger.slot(pod.index).ended:
            first.setdefault(pod.index, pod.attempt)
    return [
        pod
        for pod in pods
        if not pod.live
        and pod.attempt > first.get(pod.index, pod.attempt)
        and (pod.leaving or pod.state in ("failed", "lost"))
    ]


def followed(pods: Sequence[SlotPod]) -> list[SlotPod]:
    """A pod that ends while its follower lives has made room for it, whatever its exit code: it has not failed."""
    newest = {pod.index: pod.attempt for pod in pods if pod.live}
    return [
        replace(pod, state="lost") if pod.state == "failed" and pod.attempt < newest.get(pod.index, -1) else pod
        for pod in pods
    ]
