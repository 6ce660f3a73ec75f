"""The history of a job's resource plans as a table and bars: change, reason, expected and obtained throughput."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edl.api.kubernetes import timestamp
from edl.cli.output.tables import age, table

if TYPE_CHECKING:
    from edl.protocol.job_facts import PlanRecord
    from edl.protocol.resources import Resource, RolePlan

HEADER = ("PLAN", "AGE", "SIZES", "EXPECTED", "OBTAINED", "VERDICT", "BY", "WHY")
BAR = 30
FULL, PART = "█", "░"


def history(records: Sequence["PlanRecord"], now: float) -> str:
    """The table, and below it one bar per plan: what was obtained, and how far it was from what was expected."""
    if not records:
        return "no plan yet"
    return f"{table(HEADER, [_row(record, now) for record in records])}\n\n{chart(records)}"


def _row(record: "PlanRecord", now: float) -> tuple[object, ...]:
    plan = record.plan
    return (
        record.number,
        age(timestamp.text(record.time), now),
        sizes(plan.roles, plan.slots),
        f"{plan.expected:.4g}/s" if plan.expected else "-",
        "-" if record.obtained is None else f"{record.obtained:.4g}/s",
        record.verdict or "open",
        record.source,
        f"{plan.rule}: {plan.reason}",
    )


def sizes(roles: Mapping[str, "RolePlan"], slots: Mapping[str, "Resource"]) -> str:
    """3 worker (1 core, 2048 MiB), 1 ps (...); ps-0 (4 cores)."""
    parts = [f"{role.replicas} {name}{_resource(role.resource)}" for name, role in sorted(roles.items(), reverse=True)]
    parts += [f"{slot}{_resource(own)}" for slot, own in sorted(slots.items())]
    return ", ".join(parts)


def _resource(resource: "Resource") -> str:
    parts = [
        f"{resource.cpu:g} cpu" if resource.cpu is not None else "",
        f"{resource.memory} MiB" if resource.memory is not None else "",
        f"{resource.gpu} gpu" if resource.gpu else "",
    ]
    text = " ".join(filter(None, parts))
    return f" ({text})" if text else ""


def chart(records: Sequence["PlanRecord"]) -> str:
    """Throughput by plan: full is what was obtained, light what was expected beyond it."""
    known = [value for record in records for value in (record.obtained or 0.0, record.plan.expected)]
    top = max(known, default=0.0)
    if top <= 0:
        return "nothing was measured yet"
    lines = []
    for record in records:
        got, hoped = round(BAR * (record.obtained or 0) / top), round(BAR * record.plan.expected / top)
        bar = FULL * got + PART * max(0, hoped - got)
        number = "" if record.obtained is None else f"{record.obtained:.4g}/s"
        lines.append(f"{record.number:>4} {bar:<{BAR}} {number}".rstrip())
    return "\n".join([f"throughput by plan ({FULL} obtained, {PART} expected beyond it)", *lines])
