"""Recognises a script that cannot work: all its workers fail alike right after their start, twice running.

A worker that exits with 1 to 127 within 60 s of its start fails by its own doing. When all that started do so with the
same exit code and the same last line, in two rounds running, and no progress was ever reported, a third round would end
like them. Signals, lack of memory, evictions, and errors of rendezvous and network never count: those pass.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from edl.jobs.core.pods.slot_history import SlotHistory
from edl.jobs.core.pods.slots import SlotPod

QUICK = 60.0
ROUNDS = 2
OWN_CODES = range(1, 128)
LONGEST = 500  # characters of a last line that are compared

_PASSING = re.compile(
    r"rendezvous|connection|network|socket|timed? ?out|timeout|unreachable|no route to host|broken pipe|name resolution"
    r"|name or service not known|gaierror|nccl|gloo|tcpstore|diststore|out of memory|oom",
    re.IGNORECASE,
)


class FailureKind(NamedTuple):
    """What tells one failure from another: the exit code and the last line."""

    code: int
    line: str


def failure_kind(exit_code: int | None, message: str) -> FailureKind | None:
    """None for a failure that may pass by itself."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    line = lines[-1].strip()[:LONGEST] if lines else ""
    if exit_code not in OWN_CODES or _PASSING.search(line):
        return None
    assert exit_code is not None
    return FailureKind(exit_code, line)


def failed_alike(pods: Sequence[SlotPod], history: SlotHistory) -> SlotPod | None:
    """The first of the pods whose ends say that the script cannot work; None: they do not say so.

    `history` has what was counted, of pods that are gone too. A pod that follows and is as young proves nothing yet.
    """
    last: dict[int, SlotPod] = {}
    for pod in pods:
        if pod.live:
            if pod.ran >= QUICK:
                return None
        elif pod.started is not None and not pod.leaving:
            last[pod.index] = pod
    started = {pod.index for pod in pods if pod.started is not None}
    ends = list(last.values())
    if not ends or started - set(last) or any(_rounds(pod, history) < ROUNDS for pod in ends):
        return None
    kinds = {_kind(pod) for pod in ends}
    return min(ends, key=lambda pod: pod.ended or pod.created) if len(kinds) == 1 and None not in kinds else None


def _rounds(pod: SlotPod, history: SlotHistory) -> int:
    """In how many its slot failed. A failure that is never retried counts as the limit, after one round."""
    return min(history.slot(pod.index).failures, pod.attempt + 1)


def _kind(pod: SlotPod) -> FailureKind | None:
    quick = pod.state == "failed" and pod.ran < QUICK and pod.reason in ("", "Error")
    return failure_kind(pod.exit_code, pod.message) if quick else None
