"""What the job service says of the job's pods, in the policy's terms: what each uses, who failed, who is there."""

from collections.abc import Mapping
from typing import Any

import msgspec

from edl.brain.policy.facts import OOM, Incident, PodUse
from edl.brain.policy.units import EVALUATOR, SERVER, WORKER

ROLES = (WORKER, SERVER, EVALUATOR)
FRESH = 60.0  # seconds after which a word about usage or pace is no longer believed


class Pods(msgspec.Struct, frozen=True):
    """`running` by role; `uses` by slot; `failed` by pod: what happened to it. `finished`: workers that ended well."""

    running: dict[str, int] = {}
    uses: dict[str, PodUse] = {}
    failed: dict[str, Incident] = {}
    finished: int = 0
    alive: int = 0  # workers that run or will


def read(pods: object, now: float) -> Pods:
    """Of anything that is not as it should be only what is: it comes over a wire."""
    running: dict[str, int] = {}
    uses: dict[str, PodUse] = {}
    failed: dict[str, Incident] = {}
    finished = alive = 0
    for pod in pods if isinstance(pods, list) else ():
        if not isinstance(pod, Mapping) or pod.get("role") not in ROLES:
            continue
        role, slot, state = pod["role"], f"{pod['role']}-{pod.get('index', 0)}", pod.get("state")
        if state == "running" and not pod.get("leaving"):
            running[role] = running.get(role, 0) + 1
            if (use := _use(pod)) is not None:
                uses[slot] = use
        elif state in ("failed", "lost"):
            failed[str(pod.get("name"))] = _incident(pod, slot, now)
        finished += role == WORKER and state == "succeeded"
        alive += role == WORKER and state in ("running", "pending")
    return Pods(running, uses, failed, finished, alive)


def _use(pod: Mapping[str, Any]) -> PodUse | None:
    usage, given = pod.get("usage"), pod.get("resources") or {}
    if not isinstance(usage, Mapping) or usage.get("age", 0) > FRESH:
        return None
    return PodUse(
        max(0.0, float(usage.get("cpu") or 0)),
        max(0, int(usage.get("memory") or 0)),
        max(0.0, float(given.get("cpu") or 0)),
        max(0, int(given.get("memory") or 0)),
    )


def _incident(pod: Mapping[str, Any], slot: str, now: float) -> Incident:
    """The time is when it was first seen: what counts is whether a plan came after it."""
    ended = pod.get("exit") if isinstance(pod.get("exit"), Mapping) else {}
    assert isinstance(ended, Mapping)
    reason = OOM if pod.get("oom") else str(ended.get("reason") or pod.get("reason") or pod.get("state"))
    return Incident(slot, reason[:500], now, max(0, int((pod.get("resources") or {}).get("memory") or 0)))
