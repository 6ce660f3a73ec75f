"""Turns the job service's list of pods into the policy's terms: usage by slot, incidents, numbers by role."""

from collections.abc import Iterable

import msgspec

from edl.protocol.job_facts import OOM, Incident, PodUsage
from edl.protocol.pods import PodReport, ReportedUsage
from edl.protocol.resources import EVALUATOR, SERVER, WORKER

ROLES = (WORKER, SERVER, EVALUATOR)
FRESH = 60.0  # seconds after which a report of usage or pace is no longer believed


class PodSummary(msgspec.Struct, frozen=True):
    """`running` by role; `uses` by slot; `failed` by pod: what happened to it. `finished`: workers that ended well."""

    running: dict[str, int] = {}
    uses: dict[str, PodUsage] = {}
    failed: dict[str, Incident] = {}
    finished: int = 0
    alive: int = 0  # workers that run or will
    chief_finished: bool = False  # the first worker ended well


def read(pods: Iterable[PodReport], now: float) -> PodSummary:
    running: dict[str, int] = {}
    uses: dict[str, PodUsage] = {}
    failed: dict[str, Incident] = {}
    finished = alive = 0
    chief_finished = False
    for pod in pods:
        if pod.role not in ROLES:
            continue
        role, slot, state = pod.role, f"{pod.role}-{pod.index}", pod.state
        if state == "running" and not pod.leaving:
            running[role] = running.get(role, 0) + 1
            if (use := _use(pod)) is not None:
                uses[slot] = use
        elif state in ("failed", "lost"):
            failed[pod.name] = _incident(pod, slot, now)
        finished += role == WORKER and state == "succeeded"
        chief_finished |= role == WORKER and pod.index == 0 and state == "succeeded"
        alive += role == WORKER and state in ("running", "pending")
    return PodSummary(running, uses, failed, finished, alive, chief_finished)


def _use(pod: PodReport) -> PodUsage | None:
    usage, given = pod.usage, pod.resources
    if not isinstance(usage, ReportedUsage) or usage.age > FRESH:
        return None
    return PodUsage(
        max(0.0, usage.cpu or 0.0),
        max(0, int(usage.memory or 0)),
        max(0.0, given.cpu or 0.0),
        max(0, int(given.memory or 0)),
    )


def _incident(pod: PodReport, slot: str, now: float) -> Incident:
    """The time is when it was first seen: what counts is whether a plan came after it."""
    ended = pod.exit.reason if pod.exit else ""
    reason = OOM if pod.oom else ended or pod.reason or pod.state
    return Incident(slot, reason[:500], now, max(0, int(pod.resources.memory or 0)))
