"""How many workers: as many as the throughput curve says still bring something, tried in steps that can be undone.

Covers what others call optimize_job_worker_resource (rule 9) and does without its fixed answers (10, +4, 32).
"""

import math

from .bounds import growth_bound
from .curve import Curve, fit, points
from .facts import JobFacts, Plan
from .history import PROBE, barred, changed, comparable, newest, speed
from .load import busiest
from .settings import Settings
from .units import WORKER

LEAST_PAUSE = 3.0
DOWN = 0.75


def workers(facts: JobFacts, now: float, settings: Settings) -> Plan | str:
    """A plan, or the reason why the number stays."""
    latest = newest(facts, settings.samples)
    if len(latest) < settings.samples:
        return f"waiting for {settings.samples} samples at the present size, {len(latest)} so far"
    present = latest[-1].workers
    curve = fit(points(comparable(facts)))
    if curve is None or speed(latest) <= 0:
        return f"{present} workers train nothing at present"
    bound, why = min(growth_bound(facts, present, now, settings), _fed(facts, present, settings))
    best = best_size(curve, bound, settings)
    if best > present:
        return _grow(facts, curve, present, best, settings)
    if best < present and curve.sizes >= 2:
        found = _shrink(facts, curve, present, best, settings)
        if isinstance(found, Plan):
            return found
    if (probe := _probe(facts, present, bound, now, settings)) is not None:
        return probe
    return f"{present} workers: {why if best == bound else 'a further one would bring too little'}"


def _fed(facts: JobFacts, present: int, settings: Settings) -> tuple[int, str]:
    """The most workers that the parameter servers can feed; beyond that they are the next to grow."""
    load = busiest(facts)
    if load <= 0:
        return settings.max_workers, "nothing is known of the parameter servers"
    fed = present if load > settings.hot else math.ceil(present * settings.hot / load)
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


def _grow(facts: JobFacts, curve: Curve, present: int, best: int, settings: Settings) -> Plan | str:
    now_at = speed(newest(facts, settings.samples))
    gain = curve.at(best) / curve.at(present) - 1
    if gain < settings.worthwhile:
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


def _shrink(facts: JobFacts, curve: Curve, present: int, best: int, settings: Settings) -> Plan | str:
    """Gives up workers that bring nothing; `best` is where the margin ends, a little more keeps the throughput."""
    goal = curve.at(present) * (1 - settings.tolerance)
    smallest = points(comparable(facts))[0].workers
    least = max(best, min(smallest - 1, math.ceil(smallest * DOWN)), 1)  # below what was tried a curve knows little
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


def _probe(facts: JobFacts, present: int, bound: int, now: float, settings: Settings) -> Plan | None:
    """A few more, now and then, while every worker still brings what the first ones did: what once seemed to be the
    end may have been a bad moment. As long as it pays, on at once."""
    last, rate = facts.plans[-1] if facts.plans else None, speed(newest(facts, settings.samples))
    goes_on = last is not None and last.plan.rule == PROBE and last.verdict == "paid"
    rested = last is not None and now - last.time >= settings.hold and not barred(facts, PROBE, now, settings)
    size = min(bound, max(present + 1, int(present * settings.probe)))
    if not (goes_on or rested) or size <= present or _too_late(facts, rate, settings):
        return None
    each = max(point.throughput / point.workers for point in points(comparable(facts)) if point.workers <= present)
    if rate / present < settings.efficient * each:
        return None
    gain, share = round((size / present - 1) / 2, 4), rate / present / each
    return Plan(
        rule=PROBE,
        reason=f"{present} workers still bring {share:.0%} of what fewer did each: {size} are tried again",
        roles=changed(facts, WORKER, replicas=size),
        slots=facts.slots,
        confidence=0.2,
        gain=gain,
        expected=round(rate * (1 + gain), 3),
    )


def _too_late(facts: JobFacts, throughput: float, settings: Settings) -> str:
    """A change costs a pause; near the end of the job nothing earns it back."""
    if not facts.remaining or throughput <= 0:
        return ""
    left, pause = facts.remaining / throughput, max(facts.pause, LEAST_PAUSE)
    return f"the job ends in {left:.0f} s: too soon for a change to pay" if left < settings.pauses * pause else ""
