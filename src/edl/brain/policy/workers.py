"""How many workers: as many as the throughput curve says still bring something, tried in steps that can be undone.

Covers what others call optimize_job_worker_resource (rule 9) and does without its fixed answers (10, +4, 32).
"""

import math
from collections.abc import Sequence

from .bounds import excluded, growth_bound, measured_bound
from .curve import Curve, plausible
from .evidence import Point, doubt, noise, points, sure
from .facts import JobFacts, Plan
from .history import PROBE, barred, changed, comparable, newest, since_last_plan, speed
from .load import busiest
from .settings import Settings
from .units import WORKER

LEAST_PAUSE = 3.0
DOWN = 0.75


def workers(facts: JobFacts, now: float, settings: Settings) -> Plan | str:
    """A plan, or the reason why the number stays."""
    latest = since_last_plan(facts, newest(facts, settings.samples))
    if len(latest) < (needed := 1 if _paid(facts) else settings.samples):
        return f"waiting for {needed} samples at the present size, {len(latest)} so far"
    present = latest[-1].workers
    measured = points(comparable(facts))
    curves = plausible(measured)
    if not curves or speed(latest) <= 0:
        return f"{present} workers train nothing at present"
    allowed = min(growth_bound(facts, present, now, settings), _fed(facts, present, settings))
    bound, why = min(allowed, measured_bound(measured, present, settings))
    sizes = [best_size(curve, bound, settings) for curve in curves]
    best, curve = max(zip(sizes, curves, strict=True), key=lambda pair: pair[0])
    samples = len(newest(facts, settings.patience))
    plan = None
    if sizes[0] > present:
        plan = _grow(facts, curves[0], present, sizes[0], settings.worthwhile, settings)
    elif best > present and samples >= settings.patience // 2:
        plan = _grow(facts, curve, present, best, settings.possible, settings)
    if isinstance(plan, Plan):
        return plan
    if samples >= settings.patience:  # if fewer are less than that curve says, that will be measured
        best, curve = min(zip(sizes, curves, strict=True), key=lambda pair: pair[0])
    if best < present and curve.sizes >= 2:
        plan = _shrink(facts, measured, curve, best, settings)
        if isinstance(plan, Plan):
            return plan
    if (probe := _probe(facts, measured, allowed[0], now, settings)) is not None:
        return probe
    return plan or f"{present} workers: {why if best == bound else 'a further one would bring too little'}"


def _paid(facts: JobFacts) -> bool:
    return bool(facts.plans) and facts.plans[-1].verdict == "paid"


def _fed(facts: JobFacts, present: int, settings: Settings) -> tuple[int, str]:
    """The most workers that the parameter servers can feed; beyond that they are the next to grow."""
    load = busiest(facts)
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


def _grow(facts: JobFacts, curve: Curve, present: int, best: int, least: float, settings: Settings) -> Plan | str:
    now_at = speed(newest(facts, settings.samples))
    gain = curve.at(best) / curve.at(present) - 1
    if gain < least:
        return f"{best} workers would bring only {gain:+.1%}"
    if left := _too_late(facts, now_at, settings):
        return left
    explore = curve.sizes == 1
    words = (
        f"nothing is known beyond {present} workers: {best} are tried"
        if explore
        else f"the curve ({curve.shape}, {curve.sizes} sizes, {curve.error:.1%} off) rises from {present} to {best}"
    )
    return Plan(
        rule="workers-explore" if explore else "workers-curve",
        reason=words,
        roles=changed(facts, WORKER, replicas=best),
        slots=facts.slots,
        confidence=max(0.2, curve.confidence),
        gain=round(gain, 4),
        expected=round(now_at * (1 + gain), 3),
    )


def _shrink(facts: JobFacts, measured: Sequence[Point], curve: Curve, best: int, settings: Settings) -> Plan | str:
    """Gives up workers that bring nothing; `best` is where the margin ends, a little more keeps the throughput."""
    present = newest(facts, 1)[-1].workers
    varies, errors, smallest = noise(measured), sure(measured), measured[0].workers
    surely = (point.throughput * (1 - doubt(varies, point)) for point in measured)
    goal = max(curve.at(present), *surely) * (1 - settings.tolerance)  # of the best: small losses do not add up
    at_most = {point.workers: point.throughput * (1 + errors * doubt(varies, point)) for point in measured}
    slow = max((size for size, rate in at_most.items() if size < present and rate < goal), default=0)
    least = max(best, slow + 1, min(smallest - 1, math.ceil(smallest * DOWN)))  # below what was tried it knows little
    keep = next((size for size in range(least, present) if curve.at(size) >= goal), present)
    if keep >= present:
        return f"{present} workers: fewer would cost more than {settings.tolerance:.0%}"
    loss = curve.at(keep) / curve.at(present) - 1
    return Plan(
        rule="workers-shrink",
        reason=f"{keep} workers bring what {present} do ({loss:+.1%}): {present - keep} are given up",
        roles=changed(facts, WORKER, replicas=keep),
        slots=facts.slots,
        confidence=curve.confidence,
        expected=round(curve.at(keep), 3),
    )


def _probe(facts: JobFacts, measured: Sequence[Point], bound: int, now: float, settings: Settings) -> Plan | None:
    """More, now and then: what once seemed to be the end may have been a bad moment. As long as it pays, on at once."""
    latest = newest(facts, settings.samples)
    last, rate, present = facts.plans[-1] if facts.plans else None, speed(latest), latest[-1].workers
    tried = excluded(measured, present, settings)
    size, why = _to_try(measured, present, tried, settings)
    goes_on = last is not None and last.plan.rule == PROBE and last.verdict == "paid"
    rested = last is not None and now - last.time >= settings.hold and not barred(facts, PROBE, now, settings)
    size = min(size, bound)
    if not (goes_on or rested) or size <= present or tried.get(size) or _too_late(facts, rate, settings):
        return None
    gain = round((size / present - 1) / 2, 4)
    return Plan(
        rule=PROBE,
        reason=f"{why}: {size} are tried",
        roles=changed(facts, WORKER, replicas=size),
        slots=facts.slots,
        confidence=0.2,
        gain=gain,
        expected=round(rate * (1 + gain), 3),
    )


def _to_try(measured: Sequence[Point], present: int, tried: dict[int, bool], settings: Settings) -> tuple[int, str]:
    """The size of which least is known to its disadvantage, and why. None is tried again that was surely in vain, and
    beyond all that were tried only once for every factor of two."""
    if doubtful := [size for size, vain in tried.items() if not vain]:
        return max(doubtful), f"what was measured does not exclude that more than {present} workers pay"
    each = {point.workers: point.throughput / point.workers for point in measured}
    fewer = max((rate for size, rate in each.items() if size <= present), default=0.0)
    middle = (present + min(tried, default=present)) // 2
    if middle > present and each.get(present, 0.0) >= settings.efficient * fewer:
        return middle, f"{present} workers still bring what fewer did each, and nothing is known of a few more"
    return math.ceil(max([present, *tried]) * settings.stretch), "nothing is known of many more"


def _too_late(facts: JobFacts, throughput: float, settings: Settings) -> str:
    """A change costs a pause; near the end of the job nothing earns it back."""
    if not facts.remaining or throughput <= 0:
        return ""
    left, pause = facts.remaining / throughput, max(facts.pause, LEAST_PAUSE)
    return f"the job ends in {left:.0f} s: too soon for a change to pay" if left < settings.pauses * pause else ""
