"""Reads the ledger's facts about one job from its pods, its status and its reports."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from edl.api.job_view import JobView
from edl.api.kubernetes.core import Pod, PodSpec, convert
from edl.api.labels import LABEL_ROLE
from edl.jobs.core.stall import STALLED
from edl.ledger.amounts import NOTHING, Amounts
from edl.ledger.job_use import JobFacts
from edl.operator.reconcile.job_cache import Entry
from edl.protocol.progress import LastProgress
from edl.scheduler.placement.resources import CPU, GPU_NAMES, MEMORY, pod_requests

_AT_WORK = ("running", "scaling")  # phases, in lower case
GIB = float(1 << 30)


class Demand(msgspec.Struct, frozen=True):
    """What a job asks for: the least number of instances, and what one of them takes."""

    least: int = 0
    each: Amounts = NOTHING
    priority: int = 0
    suspended: bool = False


def demand_of(view: JobView, gpus: Sequence[str] = GPU_NAMES) -> Demand:
    spec = convert(view.lead.template.get("spec", {}), PodSpec)
    return Demand(view.lead.min, amounts_of(pod_requests(spec), gpus, lead=True), view.priority, view.suspend)


def amounts_of(requests: dict[str, int], gpus: Sequence[str] = GPU_NAMES, *, lead: bool) -> Amounts:
    return Amounts(
        instances=float(lead),
        gpus=float(sum(requests.get(name, 0) for name in gpus)),
        cores=requests.get(CPU, 0) / 1000,
        gib=requests.get(MEMORY, 0) / GIB,
    )


def facts_of(
    entry: Entry | None,
    pods: Iterable[Pod],
    demand: Demand,
    reported: LastProgress | None,
    now: float,
    gpus: Sequence[str] = GPU_NAMES,
) -> JobFacts:
    """`entry` None: the job is deleted, and only its pods are left."""
    status = entry.status if entry is not None else None
    lead = entry.kind.leading_role if entry is not None else None
    sums, members, there = _sums(pods, lead, gpus)
    ended = entry is None or entry.status.finished or entry.raw.metadata.deletion_timestamp is not None
    lacking = 0 if ended or demand.suspended else max(0, _wanted(entry, demand) - there)
    phase = status.phase.lower() if status is not None else ""
    return JobFacts(
        waiting=sums["waiting"] + demand.each * lacking,
        starting=sums["starting"],
        failed=sums["failed"],
        running=sums["running"],
        members=",".join(sorted(members)),
        at_work=phase in _AT_WORK,
        restarting=phase == "restarting",
        ended=ended,
        idle=_idle(status, reported),
        moved=now - reported.idle if reported is not None and reported.idle is not None else None,
        done=reported.done if reported is not None else None,
        pause=reported.pause if reported is not None else None,
    )


def _wanted(entry: Entry | None, demand: Demand) -> int:
    scale = entry.kind.scale_of(entry.status) if entry is not None else None
    return (scale.target if scale is not None else None) or demand.least


def _sums(pods: Iterable[Pod], lead: str | None, gpus: Sequence[str]) -> tuple[dict[str, Amounts], list[str], int]:
    """Amounts by what the pods do, the instances at work, and how many instances there are or have succeeded."""
    sums, members, there = dict.fromkeys(("waiting", "starting", "failed", "running"), NOTHING), [], 0
    for pod in pods:
        leads = lead is None or pod.metadata.labels.get(LABEL_ROLE) == lead
        if pod.finished:
            done = leads and pod.status.phase == "Succeeded"  # who has done his share has not left
            there += done
            members += [_member(pod)] if done else []
            continue
        there += leads and not pod.terminating
        what = _does(pod)
        requests = pod_requests(pod.spec, pod.status.container_statuses)
        sums[what] += amounts_of(requests, gpus, lead=leads)
        if leads and what == "running":
            members.append(_member(pod))
    return sums, members, there


def _member(pod: Pod) -> str:
    return f"{pod.metadata.name}/{pod.restarts}"


def _does(pod: Pod) -> str:
    if not pod.spec.node_name:
        return "waiting"
    states = [status.state for status in pod.status.container_statuses]
    crashed = (state.terminated is not None and state.terminated.exit_code != 0 for state in states)
    backing_off = (state.waiting is not None and state.waiting.reason == "CrashLoopBackOff" for state in states)
    if any(crashed) or any(backing_off):
        return "failed"
    return "running" if pod.status.phase == "Running" else "starting"


def _idle(status: Any, reported: LastProgress | None) -> float | None:
    """Seconds for which it stands still, once its condition says so."""
    if status is None or reported is None or reported.idle is None:
        return None
    stalled = any(one.type == STALLED and one.status == "True" for one in status.conditions)
    return reported.idle if stalled else None
