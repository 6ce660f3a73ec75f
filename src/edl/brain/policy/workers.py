"""Scales workers: as many as the throughput curve says still add throughput, in steps that can be reverted.

Takes the place of the reference rule `optimize_job_worker_resource` (docs/concepts/brain.md), without its fixed sizes
(10, +4, 32).
"""

import math
from collections.abc import Sequence

from edl.brain.policy.bounds import growth_bound, measured_bound, sizes_too_slow
from edl.brain.policy.history import (
    backoff_until,
    comparable_samples,
    latest_samples,
    median_throughput,
    since_last_plan,
    with_role,
)
from edl.brain.policy.measurements import throughput_points
from edl.brain.policy.proposal import NOT_APPLICABLE, Proposal, keep, propose
from edl.brain.policy.rules import WORKERS_CURVE, WORKERS_EXPLORE, WORKERS_PROBE, WORKERS_SHRINK
from edl.brain.policy.server_load import busiest_load
from edl.brain.policy.settings import Settings
from edl.protocol.job_facts import JobFacts, ResourcePlan
from edl.protocol.resources import WORKER
from edl.throughput.curve import Curve, plausible
from edl.throughput.points import ThroughputPoint, confidence_factor, noise, standard_error

LEAST_PAUSE = 3.0
SHRINK_LIMIT = 0.75  # of the smallest size measured: below it little is known


def scale_workers(facts: JobFacts, now: float, settings: Settings) -> Proposal:
    """A plan, or the reason why the number of workers stays."""
    latest = since_last_plan(facts, latest_samples(facts, settings.samples))
    if len(latest) < (needed := 1 if _last_plan_paid(facts) else settings.samples):
        return keep(f"waiting for {needed} samples at the present size, {len(latest)} so far")
    present = latest[-1].workers
    measured = throughput_points(comparable_samples(facts))
    curves = plausible(measured)
    if not curves or median_throughput(latest) <= 0:
        return keep(f"{present} workers train nothing at present")
    allowed = min(growth_bound(facts, present, now, settings), _fed_by_servers(facts, present, settings))
    bound, why = min(allowed, measured_bound(measured, present, settings))
    sizes = [best_size(curve, bound, settings) for curve in curves]
    best, curve = max(zip(sizes, curves, strict=True), key=lambda pair: pair[0])
    samples = len(latest_samples(facts, settings.patience))
    resized = NOT_APPLICABLE
    if sizes[0] > present:
        resized = _grow(facts, curves[0], present, sizes[0], settings.worthwhile, settings)
    elif best > present and samples >= settings.patience // 2:
        resized = _grow(facts, curve, present, best, settings.possible, settings)
    if samples >= settings.patience:  # should the smaller size be slower than its curve says, that will be measured
        best, curve = min(zip(sizes, curves, strict=True), key=lambda pair: pair[0])
    if resized.plan is None and best < present and curve.sizes >= 2:
        resized = _shrink(facts, measured, curve, best, settings)
    if resized.plan is not None:
        return resized
    probed = _probe(facts, measured, allowed[0], now, settings)
    if probed.plan is not None:
        return probed
    limit = why if best == bound else "a further one would bring too little"
    return resized if resized.reason else keep(f"{present} workers: {limit}")


def _last_plan_paid(facts: JobFacts) -> bool:
    return bool(facts.plans) and facts.plans[-1].verdict == "paid"


def _fed_by_servers(facts: JobFacts, present: int, settings: Settings) -> tuple[int, str]:
    """The most workers that the parameter servers can serve, and the reason; beyond that servers grow first."""
    load = busiest_load(facts)
    if load <= 0:
        return settings.max_workers, "nothing is known of the parameter servers"
    most = max(present, settings.max_workers) + 1  # above any other bound; a server that does nearly nothing feeds more
    fed = present if load > settings.hot else math.ceil(min(most, present * settings.hot / load))
    return fed, f"a parameter server is {load:.0%} busy"


def best_size(curve: Curve, bound: int, settings: Settings) -> int:
    """The largest size whose last worker still pays, as far as the curve can be believed."""
    believed = min(bound, math.ceil(curve.largest * settings.stretch))
    best = 1
    for size in range(2, believed + 1):
        if curve.marginal(size) < settings.marginal:
            break
        best = size
    return min(best, max(bound, 1))


def _grow(facts: JobFacts, curve: Curve, present: int, best: int, least: float, settings: Settings) -> Proposal:
    now_at = median_throughput(latest_samples(facts, settings.samples))
    gain = curve.at(best) / curve.at(present) - 1
    if gain < least:
        return keep(f"{best} workers would bring only {gain:+.1%}")
    if too_late := _too_late_to_pay(facts, now_at, settings):
        return keep(too_late)
    explore = curve.sizes == 1
    reason = (
        f"nothing is known beyond {present} workers: {best} are tried"
        if explore
        else f"the curve ({curve.shape}, {curve.sizes} sizes, {curve.error:.1%} off) rises from {present} to {best}"
    )
    plan = ResourcePlan(
        rule=WORKERS_EXPLORE if explore else WORKERS_CURVE,
        reason=reason,
        roles=with_role(facts, WORKER, replicas=best),
        slots=facts.slots,
        confidence=max(0.2, curve.confidence),
        gain=round(gain, 4),
        expected=round(now_at * (1 + gain), 3),
    )
    return propose(plan)


def _shrink(
    facts: JobFacts, measured: Sequence[ThroughputPoint], curve: Curve, best: int, settings: Settings
) -> Proposal:
    """Gives up workers that add nothing. `best` is where the marginal gain ends; a little more keeps the throughput."""
    present = latest_samples(facts, 1)[-1].workers
    varies, errors, smallest = noise(measured), confidence_factor(measured), measured[0].workers
    surely = (point.throughput * (1 - standard_error(varies, point)) for point in measured)
    goal = max(curve.at(present), *surely) * (1 - settings.tolerance)  # of the best: small losses do not add up
    at_most = {point.workers: point.throughput * (1 + errors * standard_error(varies, point)) for point in measured}
    slow = max((size for size, rate in at_most.items() if size < present and rate < goal), default=0)
    least = max(best, slow + 1, min(smallest - 1, math.ceil(smallest * SHRINK_LIMIT)))
    kept = next((size for size in range(least, present) if curve.at(size) >= goal), present)
    if kept >= present:
        return keep(f"{present} workers: fewer would cost more than {settings.tolerance:.0%}")
    loss = curve.at(kept) / curve.at(present) - 1
    plan = ResourcePlan(
        rule=WORKERS_SHRINK,
        reason=f"{kept} workers bring what {present} do ({loss:+.1%}): {present - kept} are given up",
        roles=with_role(facts, WORKER, replicas=kept),
        slots=facts.slots,
        confidence=curve.confidence,
        expected=round(curve.at(kept), 3),
    )
    return propose(plan)


def _probe(
    facts: JobFacts, measured: Sequence[ThroughputPoint], bound: int, now: float, settings: Settings
) -> Proposal:
    """Tries more workers after a rest: what seemed to be the limit may have been a bad moment. A probe that paid is
    followed by the next at once."""
    latest = latest_samples(facts, settings.samples)
    last, rate, present = facts.plans[-1] if facts.plans else None, median_throughput(latest), latest[-1].workers
    tried = sizes_too_slow(measured, present, settings)
    size, why = _size_to_probe(measured, present, tried, settings)
    goes_on = last is not None and last.plan.rule == WORKERS_PROBE and last.verdict == "paid"
    backing_off = backoff_until(facts, WORKERS_PROBE, now, settings)
    rested = last is not None and now - last.time >= settings.hold and not backing_off
    size = min(size, bound)
    if not (goes_on or rested) or size <= present or tried.get(size) or _too_late_to_pay(facts, rate, settings):
        return NOT_APPLICABLE
    gain = round((size / present - 1) / 2, 4)
    plan = ResourcePlan(
        rule=WORKERS_PROBE,
        reason=f"{why}: {size} are tried",
        roles=with_role(facts, WORKER, replicas=size),
        slots=facts.slots,
        confidence=0.2,
        gain=gain,
        expected=round(rate * (1 + gain), 3),
    )
    return propose(plan)


def _size_to_probe(
    measured: Sequence[ThroughputPoint], present: int, tried: dict[int, bool], settings: Settings
) -> tuple[int, str]:
    """The size with the least evidence against it, and why. A size that is surely too slow is not tried again; beyond
    the largest size tried, only one for every factor of two."""
    if doubtful := [size for size, too_slow in tried.items() if not too_slow]:
        return max(doubtful), f"what was measured does not exclude that more than {present} workers pay"
    each = {point.workers: point.throughput / point.workers for point in measured}
    fewer = max((rate for size, rate in each.items() if size <= present), default=0.0)
    middle = (present + min(tried, default=present)) // 2
    if middle > present and each.get(present, 0.0) >= settings.efficient * fewer:
        return middle, f"{present} workers still bring what fewer did each, and nothing is known of a few more"
    return math.ceil(max([present, *tried]) * settings.stretch), "nothing is known of many more"


def _too_late_to_pay(facts: JobFacts, throughput: float, settings: Settings) -> str:
    """The reason if the job ends before a change, which costs a pause, could pay; else empty."""
    if not facts.remaining or throughput <= 0:
        return ""
    left, pause = facts.remaining / throughput, max(facts.pause, LEAST_PAUSE)
    return f"the job ends in {left:.0f} s: too soon for a change to pay" if left < settings.pauses * pause else ""
