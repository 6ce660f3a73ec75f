"""Did the last plan bring what it promised? If not, it is taken back and held against its like for a while."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from .curve import fit
from .evidence import Point, doubt, noise, point, points, sure
from .facts import JobFacts, Plan, PlanRecord, Sample
from .history import FAILED, GROWTH, comparable, since_last_plan, speed
from .settings import Settings
from .units import WORKER, RolePlan

NOISE = 0.02
Verdict = Literal["paid", "not paid", "taken back", "safety"]


class Judgement(msgspec.Struct, frozen=True):
    number: int
    obtained: float
    verdict: Verdict


def judge(facts: JobFacts, settings: Settings) -> Judgement | None:
    """None while there is nothing to judge, or what was measured since does not tell yet."""
    record = facts.plans[-1] if facts.plans else None
    if record is None or record.verdict:
        return None
    after = _after(facts)
    if record.plan.gain <= 0 or record.before <= 0:
        return Judgement(record.number, speed(after), "safety") if len(after) >= settings.samples else None
    promised = _promised(facts, after)
    if promised <= 0:
        return None
    obtained, wanted = speed(after), _wanted(facts, promised, after[-1].workers, settings)
    gain = _gain(facts, after, settings) if obtained > 0 else (-math.inf, 0.0)
    verdict = _verdict(gain, wanted, len(after), settings)
    return Judgement(record.number, obtained, verdict) if verdict else None


def undecided(facts: JobFacts, settings: Settings) -> bool:
    """Whether the last plan, which was judged just now, is to be measured longer before anything else is tried."""
    record = facts.plans[-1] if facts.plans else None
    if record is None or record.verdict or record.plan.gain <= 0 or record.before <= 0:
        return False
    after = _after(facts)
    return len(after) >= settings.samples and _promised(facts, after) > 0


def _after(facts: JobFacts) -> list[Sample]:
    """What was measured since the last plan, at the number of workers that it led to."""
    found = since_last_plan(facts, facts.samples)
    return [sample for sample in found if sample.workers == found[-1].workers]


def _promised(facts: JobFacts, after: Sequence[Sample]) -> float:
    """The gain that the last plan promised, 0 as long as nothing of it was granted."""
    record = facts.plans[-1]
    return record.plan.gain * _granted_share(facts, record, after[-1].workers) if after else 0.0


def _wanted(facts: JobFacts, promised: float, workers: int, settings: Settings) -> float:
    """The least gain that is enough: a part of what was promised, and of workers no more than makes them worth it."""
    enough = settings.paid * promised
    before = _size_before(facts)
    if facts.plans[-1].plan.rule in GROWTH and before:
        enough = min(enough, settings.marginal * (workers / before - 1))
    return max(NOISE, enough)


def _size_before(facts: JobFacts) -> int:
    """The workers that trained when the last plan was made, 0 if nobody measured them on these machines."""
    earlier = [sample for sample in comparable(facts) if sample.time <= facts.plans[-1].time]
    return earlier[-1].workers if earlier else 0


def _verdict(gain: tuple[float, float], wanted: float, samples: int, settings: Settings) -> Verdict | None:
    """Paid if it seems so; if it surely is, one sample is enough. Not paid only if the noise excludes it, for which a
    few samples are needed unless it is even slower, or if half of it does not show within our patience."""
    found, margin = gain
    least = math.log1p(wanted)
    if found >= least:
        return "paid" if samples >= settings.samples or found - margin >= least else None
    few = settings.samples if found + margin < 0 else settings.patience // 2
    if found + margin < least and samples >= few:
        return "not paid"
    if samples < settings.patience:
        return None
    return "paid" if found >= least / 2 else "not paid"


def _gain(facts: JobFacts, after: Sequence[Sample], settings: Settings) -> tuple[float, float]:
    """The logarithm of the throughput since by that before, and how far off that may be. Where only workers were added,
    all samples of both sizes count, whenever they were taken."""
    record, known = facts.plans[-1], points(comparable(facts))
    sizes, before = {point.workers: point for point in known}, _size_before(facts)
    old, new = Point(0, record.before, 0.0, samples=settings.samples), point(after[-1].workers, after)
    if record.plan.rule in GROWTH and before in sizes and new.workers in sizes:
        old, new = sizes[before], sizes[new.workers]
    return math.log(new.throughput / old.throughput), sure(known) * doubt(noise(known), old, new)


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
