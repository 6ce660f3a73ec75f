"""Evaluates the last plan: compares the throughput since with what the plan promised, and reverts one that did not pay.

A failed plan also holds back plans of the same rule for a while (`history.backoff_until`).
"""

import math
from collections.abc import Sequence

import msgspec

from edl.brain.policy.history import FAILED, comparable_samples, median_throughput, since_last_plan
from edl.brain.policy.measurements import throughput_point, throughput_points
from edl.brain.policy.proposal import NOT_APPLICABLE, Proposal, hold, propose
from edl.brain.policy.rules import GROWTH_RULES, TAKE_BACK
from edl.brain.policy.settings import Settings
from edl.protocol.job_facts import EvaluationResult, JobFacts, PlanEvaluation, PlanRecord, ResourcePlan, Sample
from edl.protocol.resources import WORKER, RolePlan
from edl.throughput.curve import fit
from edl.throughput.points import ThroughputPoint, confidence_factor, noise, standard_error

NOISE = 0.02


def evaluate(facts: JobFacts, settings: Settings) -> PlanEvaluation | None:
    """None while there is nothing to evaluate, or the samples since the plan are inconclusive."""
    record = facts.plans[-1] if facts.plans else None
    if record is None or record.verdict:
        return None
    after = _samples_after(facts)
    if record.plan.gain <= 0 or record.before <= 0:
        enough = len(after) >= settings.samples
        return PlanEvaluation(record.number, median_throughput(after), "safety") if enough else None
    promised = _promised_gain(facts, after)
    if promised <= 0:
        return None
    obtained, wanted = median_throughput(after), _required_gain(facts, promised, after[-1].workers, settings)
    gain = _measured_gain(facts, after, settings) if obtained > 0 else (-math.inf, 0.0)
    result = _result(gain, wanted, len(after), settings)
    return PlanEvaluation(record.number, obtained, result) if result else None


def await_evaluation(facts: JobFacts, now: float, settings: Settings) -> Proposal:
    """Holds further plans while the last one, evaluated just now, needs more samples."""
    record = facts.plans[-1] if facts.plans else None
    if record is None or record.verdict or record.plan.gain <= 0 or record.before <= 0:
        return NOT_APPLICABLE
    after = _samples_after(facts)
    if len(after) < settings.samples or _promised_gain(facts, after) <= 0:
        return NOT_APPLICABLE
    return hold(f"what was measured since plan {record.number} does not tell yet whether it pays")


def _samples_after(facts: JobFacts) -> list[Sample]:
    """The samples since the last plan, at the number of workers that it led to."""
    found = since_last_plan(facts, facts.samples)
    return [sample for sample in found if sample.workers == found[-1].workers]


def _promised_gain(facts: JobFacts, after: Sequence[Sample]) -> float:
    """The gain that the last plan promised; 0 as long as nothing of it is granted."""
    record = facts.plans[-1]
    return record.plan.gain * _granted_share(facts, record, after[-1].workers) if after else 0.0


def _required_gain(facts: JobFacts, promised: float, workers: int, settings: Settings) -> float:
    """The least gain that pays: a share of the promise, but for added workers no more than their marginal gain."""
    enough = settings.paid * promised
    before = _size_before(facts)
    if facts.plans[-1].plan.rule in GROWTH_RULES and before:
        enough = min(enough, settings.marginal * (workers / before - 1))
    return max(NOISE, enough)


def _size_before(facts: JobFacts) -> int:
    """The number of workers when the last plan was made; 0 if it was not measured on the present hardware."""
    earlier = [sample for sample in comparable_samples(facts) if sample.time <= facts.plans[-1].time]
    return earlier[-1].workers if earlier else 0


def _result(gain: tuple[float, float], wanted: float, samples: int, settings: Settings) -> EvaluationResult | None:
    """`paid` if the estimate reaches the required gain; one sample is enough if the whole interval does. `not paid`
    only if the noise excludes the gain (with a few samples, two if it is slower than before), or if half of it does not
    show after `patience` samples. None: more samples are needed."""
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


def _measured_gain(facts: JobFacts, after: Sequence[Sample], settings: Settings) -> tuple[float, float]:
    """The logarithm of the ratio of throughput after to before, and its margin of error. Where only workers were added,
    all samples of both sizes count, whenever they were taken."""
    record, known = facts.plans[-1], throughput_points(comparable_samples(facts))
    sizes, before = {point.workers: point for point in known}, _size_before(facts)
    old = ThroughputPoint(0, record.before, 0.0, samples=settings.samples)
    new = throughput_point(after[-1].workers, after)
    if record.plan.rule in GROWTH_RULES and before in sizes and new.workers in sizes:
        old, new = sizes[before], sizes[new.workers]
    return math.log(new.throughput / old.throughput), confidence_factor(known) * standard_error(noise(known), old, new)


def _granted_share(facts: JobFacts, record: PlanRecord, workers: int) -> float:
    """The share of the added workers that was granted: a plan granted in part promised in part."""
    if record.plan.rule not in GROWTH_RULES or len(facts.plans) < 2:
        return 1.0
    before = facts.plans[-2].plan.roles.get(WORKER, RolePlan(0)).replicas
    asked = record.plan.roles.get(WORKER, RolePlan(0)).replicas - before
    return min(1.0, (workers - before) / asked) if asked > 0 else 1.0


def evaluated(record: PlanRecord, evaluation: PlanEvaluation) -> PlanRecord:
    return msgspec.structs.replace(record, obtained=evaluation.obtained, verdict=evaluation.verdict)


def with_evaluation(facts: JobFacts, evaluation: PlanEvaluation | None) -> JobFacts:
    if evaluation is None:
        return facts
    return msgspec.structs.replace(facts, plans=(*facts.plans[:-1], evaluated(facts.plans[-1], evaluation)))


def revert(facts: JobFacts, now: float, settings: Settings) -> Proposal:
    """The sizes and resources before the last plan, if that one did not pay. If it only added workers, the fewest of
    them that the curve says bring the same are kept."""
    if len(facts.plans) < 2 or facts.plans[-1].verdict not in FAILED or facts.plans[-1].before <= 0:
        return NOT_APPLICABLE
    record, before = facts.plans[-1], facts.plans[-2].plan
    roles, kept = before.roles, ""
    if record.plan.rule in GROWTH_RULES:
        fewer = _smallest_equivalent(facts, record, settings)
        old = before.roles.get(WORKER, RolePlan(0))
        if fewer > old.replicas:
            roles = {**before.roles, WORKER: RolePlan(fewer, old.resource)}
            kept = f"; {fewer} of its workers are kept, which bring as much"
    obtained = record.obtained or 0.0
    plan = ResourcePlan(
        rule=TAKE_BACK,
        reason=f"plan {record.number} promised {record.plan.gain:+.0%} and brought {obtained / record.before - 1:+.0%}"
        f": it is taken back{kept}, and not tried again soon",
        roles=roles,
        slots=before.slots,
        confidence=0.9,
        expected=max(record.before, obtained) if kept else record.before,
    )
    return propose(plan)


def _smallest_equivalent(facts: JobFacts, record: PlanRecord, settings: Settings) -> int:
    """The fewest workers that the curve says bring what the present ones do, 0 if it cannot say."""
    curve = fit(throughput_points(comparable_samples(facts)))
    present = record.plan.roles[WORKER].replicas
    if curve is None or curve.sizes < 2:
        return 0
    goal = curve.at(present) * (1 - settings.tolerance)
    return next((size for size in range(1, present) if curve.at(size) >= goal), 0)
