"""Did the last plan bring what it promised? If not, it is taken back and held against its like for a while."""

from typing import Literal

import msgspec

from .curve import fit, points
from .facts import JobFacts, Plan, PlanRecord
from .history import FAILED, GROWTH, comparable, since_last_plan, speed
from .settings import Settings
from .units import WORKER, RolePlan

NOISE = 0.02


class Judgement(msgspec.Struct, frozen=True):
    number: int
    obtained: float
    verdict: Literal["paid", "not paid", "taken back", "safety"]


def judge(facts: JobFacts, settings: Settings) -> Judgement | None:
    """None while there is nothing to judge, or too little was measured since."""
    record = facts.plans[-1] if facts.plans else None
    if record is None or record.verdict:
        return None
    after = since_last_plan(facts)
    if after:
        after = [sample for sample in after if sample.workers == after[-1].workers]
    if len(after) < settings.samples:
        return None
    obtained = speed(after)
    if record.plan.gain <= 0 or record.before <= 0:
        return Judgement(record.number, obtained, "safety")
    promised = record.plan.gain * _granted_share(facts, record, after[-1].workers)
    if promised <= 0:
        return None  # nothing of it was granted yet
    paid = obtained >= record.before * (1 + max(NOISE, settings.paid * promised))
    return Judgement(record.number, obtained, "paid" if paid else "not paid")


def _granted_share(facts: JobFacts, record: PlanRecord, workers: int) -> float:
    """A plan that was granted in part promised in part."""
    if record.plan.rule not in GROWTH or len(facts.plans) < 2:
        return 1.0
    before = facts.plans[-2].plan.roles.get(WORKER, RolePlan(0)).replicas
    asked = record.plan.roles.get(WORKER, RolePlan(0)).replicas - before
    return min(1.0, (workers - before) / asked) if asked > 0 else 1.0


def apply(facts: JobFacts, judgement: Judgement | None) -> JobFacts:
    if judgement is None:
        return facts
    record = facts.plans[-1]
    judged = msgspec.structs.replace(record, obtained=judgement.obtained, verdict=judgement.verdict)
    return msgspec.structs.replace(facts, plans=(*facts.plans[:-1], judged))


def take_back(facts: JobFacts, settings: Settings) -> Plan | None:
    """The sizes and resources of before the last plan, if that one did not pay. If only workers were added, and the
    curve says that fewer of them bring the same, as many as that."""
    if len(facts.plans) < 2 or facts.plans[-1].verdict not in FAILED or facts.plans[-1].before <= 0:
        return None
    record, before = facts.plans[-1], facts.plans[-2].plan
    roles, kept = before.roles, ""
    if record.plan.rule in GROWTH:
        fewer = _enough(facts, record, settings)
        old = before.roles.get(WORKER, RolePlan(0))
        if fewer > old.replicas:
            roles = {**before.roles, WORKER: RolePlan(fewer, old.resource)}
            kept = f"; {fewer} of its workers are kept, which bring as much"
    obtained = record.obtained or 0.0
    return Plan(
        rule="take-back",
        reason=f"plan {record.number} promised {record.plan.gain:+.0%} and brought {obtained / record.before - 1:+.0%}"
        f": it is taken back{kept}, and not tried again soon",
        roles=roles,
        slots=before.slots,
        confidence=0.9,
        expected=max(record.before, obtained) if kept else record.before,
    )


def _enough(facts: JobFacts, record: PlanRecord, settings: Settings) -> int:
    """The fewest workers that the curve says bring what the present ones do, 0 if it cannot say."""
    curve = fit(points(comparable(facts)))
    present = record.plan.roles[WORKER].replicas
    if curve is None or curve.sizes < 2:
        return 0
    goal = curve.at(present) * (1 - settings.tolerance)
    return next((size for size in range(1, present) if curve.at(size) >= goal), 0)
