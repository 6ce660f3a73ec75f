"""All that the page of one job shows, out of the caches and what was sampled. Pure but for the caches' lookups."""

from collections.abc import Iterable
from typing import Any

import msgspec

from edl.api.kubernetes.core import Pod
from edl.api.labels import LABEL_INDEX, LABEL_ROLE
from edl.doctor.job import examine_job
from edl.jobs.registry import JOB_KIND_BY_CRD
from edl.operator.reconcile.checked_object import whole
from edl.operator.reconcile.job_key import JobKey
from edl.operator.resources import RawJob
from edl.web.model.history import KeptJob
from edl.web.model.rows import integer, job_key, listing, mapping, moment, number, row_of, text
from edl.web.model.samples import Point, columns
from edl.web.model.state import ClusterState
from edl.web.types import (
    Advice,
    Cause,
    ConditionRow,
    JobDetail,
    JobRow,
    PodRow,
    RoleCount,
    SizeDecision,
)

PODS = 1000  # that a page lists


def detail_of(state: ClusterState, key: JobKey, kept: KeptJob, *, pods: bool) -> JobDetail | None:
    """None: there is no such job. `pods`: the viewer may list them."""
    kind = JOB_KIND_BY_CRD.get(key.kind)
    raw = state.caches.jobs[key.kind].get((key.namespace, key.name)) if kind is not None else None
    if kind is None or raw is None:
        return past_detail(kept)
    if kept.row is not None and kept.row.uid != raw.metadata.uid:
        kept = KeptJob(missing=kept.missing)  # it is of an earlier job of the name
    status, row = mapping(raw.status), row_of(kind, raw)
    found = sorted(state.caches.pods_of(key, raw.metadata.uid), key=_order)
    scale = mapping(status.get(kind.scale_field))
    decisions = merged_decisions(kept.decisions, decisions_of(scale.get("history")))
    series = state.series.of(job_key(*key))
    return JobDetail(
        row=row,
        api_version=raw.api_version or kind.api_versions[0],
        kind_name=kind.name,
        present=True,
        decisions=decisions,
        points=columns(_with_decisions(_merged(kept.points, series), decisions)),
        roles=_roles(status),
        conditions=_conditions(status),
        pods=[pod_row(pod) for pod in found[:PODS]] if pods else None,
        more_pods=max(0, len(found) - PODS) if pods else 0,
        cause=_cause(status),
        advice=_advice(state, raw, found if pods else []),
        commands=commands(row),
        account=kept.account,
        goodput=kept.goodput,
        rescale_seconds=number(scale.get("rescale_seconds") or scale.get("rescaleSeconds")),
        scalable=kind.scale_paths is not None,
        missing=[*([] if pods else ["its pods: you may not list pods in this namespace"]), *kept.missing],
    )


def past_detail(kept: KeptJob) -> JobDetail | None:
    """Of a job that is deleted, what history kept; None if nothing."""
    if kept.row is None:
        return None
    kind = JOB_KIND_BY_CRD.get(kept.row.kind)
    failed = kept.row.state == "failed"
    return JobDetail(
        row=kept.row,
        api_version=kind.api_versions[0] if kind is not None else "",
        kind_name=kind.name if kind is not None else kept.row.kind,
        present=False,
        decisions=kept.decisions,
        points=columns(_with_decisions(kept.points, kept.decisions)),
        roles=[],
        conditions=[],
        pods=[],
        more_pods=0,
        cause=Cause(pod="", exit_code=None, reason=kept.row.reason, message=kept.last_lines) if failed else None,
        advice=[Advice(level="note", about="job", message=kept.note, fix="")],
        commands=[],
        account=kept.account,
        goodput=kept.goodput,
        rescale_seconds=None,
        scalable=False,
        missing=["its pods and their logs: they are gone", *kept.missing],
    )


def merged_decisions(kept: list[SizeDecision], told: list[SizeDecision]) -> list[SizeDecision]:
    """What was kept, and of what status tells the part after it. Status tells times by the second."""
    last = max((one.time for one in kept if one.time is not None), default=float("-inf"))
    return [*kept, *(one for one in told if one.time is None or one.time > last + 1)]


def decisions_of(history: Any) -> list[SizeDecision]:
    return [
        SizeDecision(
            time=moment(mapping(one).get("time")),
            before=integer(mapping(one).get("from")) or 0,
            to=integer(mapping(one).get("to")) or 0,
            reason=text(mapping(one).get("reason")),
        )
        for one in listing(history)
    ]


def _with_decisions(points: list[Point], decisions: Iterable[SizeDecision]) -> list[Point]:
    """Every decision is a step of the target, also where nobody looked at the job just then."""
    steps = [
        Point(one.time, None, target, None, None)
        for one in decisions
        if one.time is not None
        for target in (one.before, one.to)
    ]
    return sorted([*points, *steps], key=lambda point: point.time)


def _merged(kept: list[Point], series: list[Point]) -> list[Point]:
    """What was kept, and of what we saw ourselves the part after it."""
    last = kept[-1].time if kept else float("-inf")
    return [*kept, *(point for point in series if point.time > last)]


def _roles(status: Any) -> list[RoleCount]:
    listed = [(text(mapping(one).get("role"), 40), mapping(one)) for one in listing(status.get("replica_statuses"))]
    by_role = listed or [(text(role, 40), mapping(one)) for role, one in mapping(status.get("replicaStatuses")).items()]
    counts = ("desired", "pending", "active", "succeeded", "failed")
    return [RoleCount(role=role, **{name: integer(one.get(name)) or 0 for name in counts}) for role, one in by_role]


def _conditions(status: Any) -> list[ConditionRow]:
    return [
        ConditionRow(
            type=text(mapping(one).get("type"), 80),
            status=text(mapping(one).get("status"), 20),
            reason=text(mapping(one).get("reason"), 80),
            message=text(mapping(one).get("message")),
            since=moment(mapping(one).get("lastTransitionTime")),
        )
        for one in listing(status.get("conditions"))
    ]


def _cause(status: Any) -> Cause | None:
    cause = mapping(status.get("root_cause") or status.get("rootCause"))
    if not cause:
        return None
    code = cause.get("exit_code", cause.get("exitCode"))
    return Cause(
        pod=text(cause.get("pod"), 300),
        exit_code=integer(code),
        reason=text(cause.get("reason"), 200),
        message=text(cause.get("message"), 4096),
    )


# Pods.


def _order(pod: Pod) -> tuple[str, int, str]:
    labels = pod.metadata.labels
    index = labels.get(LABEL_INDEX, "")
    return labels.get(LABEL_ROLE, ""), int(index) if index.isdecimal() else 0, pod.metadata.name


def pod_row(pod: Pod) -> PodRow:
    return PodRow(
        name=pod.metadata.name,
        role=pod.metadata.labels.get(LABEL_ROLE, ""),
        node=pod.spec.node_name,
        state=pod_state(pod),
        ready=pod.ready,
        restarts=pod.restarts,
        started=moment(pod.status.start_time),
    )


def pod_state(pod: Pod) -> str:
    """What `kubectl get pods` would show."""
    if pod.terminating:
        return "Terminating"
    for status in pod.status.container_statuses:
        ended, waits = status.state.terminated, status.state.waiting
        if ended is not None and ended.reason not in ("", "Completed"):
            return f"{ended.reason} ({ended.exit_code})"
        if waits is not None and waits.reason not in ("", "ContainerCreating"):
            return waits.reason
    return pod.status.phase or "Pending"


# What to do next.


def _advice(state: ClusterState, raw: RawJob, pods: list[Pod]) -> list[Advice]:
    there = {pod.spec.node_name for pod in pods}
    nodes = [_plain(node) for node in state.caches.nodes.all() if node.metadata.name in there]
    flags = f" -n {raw.metadata.namespace}" if raw.metadata.namespace != "default" else ""
    found = examine_job(whole(raw), [_plain(pod) for pod in pods], nodes, flags)
    return [Advice(level=one.level, about=one.about, message=text(one.message), fix=text(one.fix)) for one in found]


def _plain(item: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(item)
    return {"metadata": {}, "spec": {}, "status": {}, **plain}


def commands(row: JobRow) -> list[str]:
    """What a person would type next, by the state that the job is in."""
    where = f" -n {row.namespace}" if row.namespace != "default" else ""
    if row.state == "failed":
        return [f"edl logs {row.name}{where} --tail 50", f"edl delete {row.name}{where}"]
    if row.state == "succeeded":
        return [f"edl logs {row.name}{where}", f"edl delete {row.name}{where}"]
    if row.state in ("waiting", "new"):
        return [f"edl doctor {row.name}{where}", "edl plan", "edl top"]
    if row.state in ("paused", "suspended"):
        return [f"edl resume {row.name}{where}", f"edl describe {row.name}{where}"]
    return [f"edl logs -f {row.name}{where}", f"edl pause {row.name}{where}", f"edl scale {row.name}{where} N"]
