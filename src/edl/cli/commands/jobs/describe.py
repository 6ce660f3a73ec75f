"""`edl describe`: what a job is, why it has its size, what happened to it, and what to do next."""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edl.cli.commands.jobs.events import HEADER as EVENTS
from edl.cli.commands.jobs.events import event_rows, job_events
from edl.cli.commands.jobs.scale import held
from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import JobSummary, find_job
from edl.cli.connect.pods import Pod, end_of, job_pods, last_words, role_of, state_of
from edl.cli.connect.progress import ProgressReader
from edl.cli.output.live import JobSnapshot, count, duration, last_change, numbers
from edl.cli.output.tables import age, table, terminal_width, wrapped
from edl.cli.output.terminal import harmless
from edl.protocol.progress import LastProgress

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "all about a job: its size and why, what happened, what to do next"
ORDER = 70

RECENT = 12
PLANS, PLANNED = "trainer", "elastic.iml.github.io"  # the key in the job service, and the kind of job that has it


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="NAME", help="a job, or KIND/NAME")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _describe(client, namespace, options.job), options)


async def _describe(client: "Client", namespace: str, wanted: str) -> int:
    job = await find_job(client, namespace, wanted)
    pods = await job_pods(client, job.kind, namespace, job.name, uid=job.uid)
    events = await job_events(client, namespace, job.name)
    reader = ProgressReader(client, job.kind, namespace, job.name, uid=job.uid)
    progress = None if job.finished else await reader.read()
    plans = await reader.value(PLANS) if job.kind.group == PLANNED else None
    print(harmless(render(job, pods, events, time.time(), progress, plans)))
    return 0


def render(
    job: JobSummary,
    pods: Sequence[Pod],
    events: Sequence[dict[str, Any]],
    now: float,
    progress: LastProgress | None = None,
    plans: bytes | None = None,
) -> str:
    """`plans` is what the trainer of an EasyDL job keeps of its own."""
    sections = [
        _what(job, now, progress),
        _table("Roles", ("ROLE", "DESIRED", "PENDING", "ACTIVE", "SUCCEEDED", "FAILED"), _roles(job)),
        _table("Conditions", ("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"), _conditions(job, now)),
        _table("Sizes", ("AGE", "FROM", "TO", "WHY"), _history(job, now)),
        _plans(plans, now),
        _table("Pods", ("POD", "ROLE", "STATE", "NODE", "AGE"), _pods(pods, now)),
        _table("Pods that failed or were lost", ("POD", "AGE", "END", "LAST LINE"), _ended(job, now)),
        _table("Events", EVENTS, event_rows(list(events)[-RECENT:], now)),
        "Next\n" + "\n".join(wrapped(f"  {line}", indent=4) for line in advice(job)),
    ]
    return "\n\n".join(section for section in sections if section)


def _what(job: JobSummary, now: float, progress: LastProgress | None) -> str:
    granted = "none" if job.target is None else job.target
    allowed = f", {job.least or 1}..{job.most} allowed" if job.most else ""
    size = f"{job.now or 0} now, {granted} granted{allowed}"
    lines = {
        "Job": f"{job.kind.name} {job.namespace}/{job.name} ({job.kind.group})",
        "Phase": f"{job.stage or 'new'}, submitted {age(job.created, now)} ago",
        "Size": size,
        "Why": job.reason or "nothing decided yet",
    }
    if words := held(job, now):
        lines["Held"] = words
    if progress is not None:
        lines["Training"] = ", ".join(numbers(JobSnapshot(job, progress))[1:]) + f" ({progress.age:.0f} s ago)"
    elif reached := reached_by(job):
        lines["Reached" if job.finished else "Training"] = reached
    if changed := last_change(job):
        lines["Changed"] = f"{changed.words} ({age(changed.time or '', now)} ago)"
    if cause := cause_of(job):
        lines["Cause"] = cause
    return "\n".join(wrapped(f"{name + ':':10}{words}") for name, words in lines.items())


def reached_by(job: JobSummary) -> str:
    """What its training has come to, as it stands in status: it outlives the pods and the job service's memory."""
    progress: Mapping[str, Any] = job.status.get("progress") or {}
    done, total, seconds = progress.get("done"), progress.get("total"), progress.get("seconds")
    steps = f"{done} of {total} steps" if done is not None and total else ""
    known = [
        str(progress.get("shown") or ""),
        steps,
        f"epoch {progress['epoch']:g}" if progress.get("epoch") is not None else "",
        f"loss {progress['loss']:.4g}" if progress.get("loss") is not None else "",
        f"{count(progress['mean'])} samples/s on average" if progress.get("mean") is not None else "",
        f"in {duration(seconds)}" if seconds else "",
    ]
    return ", ".join(filter(None, known))


def _plans(kept: bytes | None, now: float) -> str:
    if kept is None:
        return ""
    import msgspec

    from edl.cli.output.plan_history import history
    from edl.runtime.easydl_trainer.state import decode

    try:
        records = decode(kept).plans
    except msgspec.DecodeError:
        return ""  # a trainer of another version
    return "Plans\n" + "\n".join(f"  {line}".rstrip() for line in history(records, now).splitlines())


def cause_of(job: JobSummary) -> str:
    """Why it failed, with the pod's last output; empty if unknown."""
    cause: Mapping[str, Any] = job.status.get("root_cause") or job.status.get("rootCause") or {}
    if not cause:
        return ""
    last = "".join(f"\n            | {line}" for line in str(cause.get("message") or "").splitlines())
    return f"pod {cause.get('pod')}: {end_of(cause)}{last}"


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    limit = terminal_width()
    shown = table(header, rows, width=None if limit is None else limit - 2)
    return f"{title}\n" + "\n".join(f"  {line}" for line in shown.splitlines())


def _ended(job: JobSummary, now: float) -> list[tuple[object, ...]]:
    return [(one.pod, age(one.time, now), one.end, one.message.rstrip().rpartition("\n")[2]) for one in last_words(job)]


def _roles(job: JobSummary) -> list[tuple[object, ...]]:
    listed = job.status.get("replica_statuses") or ()
    by_role = {entry["role"]: entry for entry in listed} or (job.status.get("replicaStatuses") or {})
    counts = ("desired", "pending", "active", "succeeded", "failed")
    return [(role, *(entry.get(count, 0) for count in counts)) for role, entry in by_role.items()]


def _conditions(job: JobSummary, now: float) -> list[tuple[object, ...]]:
    return [
        (
            condition.get("type"),
            condition.get("status"),
            age(condition.get("lastTransitionTime") or "", now),
            condition.get("reason"),
            condition.get("message"),
        )
        for condition in job.status.get("conditions") or ()
    ]


def _history(job: JobSummary, now: float) -> list[tuple[object, ...]]:
    changes = job.scale.get("history") or ()
    return [
        (age(change.get("time") or "", now), change.get("from"), change.get("to"), change.get("reason"))
        for change in changes
    ]


def _pods(pods: Sequence[Pod], now: float) -> list[tuple[object, ...]]:
    return [
        (
            pod["metadata"]["name"],
            role_of(pod),
            state_of(pod),
            (pod.get("spec") or {}).get("nodeName"),
            age(pod["metadata"].get("creationTimestamp", ""), now),
        )
        for pod in pods
    ]


def advice(job: JobSummary) -> list[str]:
    """What a person would do next, by the state the job is in."""
    where = f" -n {job.namespace}" if job.namespace != "default" else ""
    conditions = {entry.get("type"): entry for entry in job.status.get("conditions") or ()}
    if not job.phase:
        return ["the operator has not seen this job yet; is it running? `kubectl get lease -A` shows edl-operator"]
    if job.phase.lower() == "failed":
        return [
            f"read its last lines: edl logs {job.name}{where} --tail 50",
            "mend the cause above, then delete and submit it again",
        ]
    if job.phase.lower() == "succeeded":
        return [
            f"its pods are kept for their logs: edl logs {job.name}{where}",
            f"remove it: edl delete {job.name}{where}",
        ]
    if conditions.get("Queued", {}).get("status") == "True":
        return ["it waits for room; the reason above says what is missing", "`edl top` shows who uses the cluster"]
    if conditions.get("WaitsForState", {}).get("status") == "True":
        return ["it goes on by itself when the state of its backup is there; the reason above says what to do"]
    return [
        f"watch it: edl logs -f {job.name}{where}",
        f"hold its size: edl pause {job.name}{where}",
        f"ask for a size: edl scale {job.name}{where} N (`kubectl scale` to the number in the spec is no write)",
    ]
