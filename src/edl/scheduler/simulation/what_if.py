"""What would become of the jobs of a real cluster under a policy: a snapshot run forward, summed up.

Times count from the moment of the snapshot. A job that does not tell what it has left is taken to need as long at its
minimum as the caller says, and to speed up as the prior has it; without a word of the caller it never ends.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from edl.scheduler.memory import Memory
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.figures import percentile
from edl.scheduler.simulation.forward import Future, Happening
from edl.scheduler.snapshot.types import JobFacts, Snapshot
from edl.throughput.model import JobModel, job_model, prior_rate


class WhatIf(msgspec.Struct, frozen=True):
    """Seconds from now. `ended` of `jobs` end within the time; averages are of those."""

    policy: str
    jobs: int
    ended: int
    avg_completion: float
    p50: float
    p90: float
    makespan: float
    started: int
    """Of those that waited."""
    avg_wait: float
    changes: int
    gpu_hours_lost: float


def what_if(
    taken: Snapshot, *, now: float, settings: Settings, ahead: float, plans: int, takes: float | None
) -> tuple[WhatIf, list[Happening]]:
    """`takes`: seconds at its minimum that a job needs which does not say."""
    if takes is not None:
        taken = replace(taken, jobs=tuple(_with_work(facts, takes) for facts in taken.jobs))
    happened = list(Future(taken, Memory(), now=now, settings=settings).run(now + ahead, plans))
    return _summed_up(taken, happened, now, settings.policy), happened


def _with_work(facts: JobFacts, seconds: float) -> JobFacts:
    model = facts.model
    if facts.state != "active" or (model is not None and model.remaining is not None):
        return facts
    model = model or _prior(max(facts.max, 1))
    return replace(facts, model=replace(model, remaining=seconds * model.rate(max(facts.min, 1))))


def _prior(most: int) -> JobModel:
    sizes = sorted({*range(1, min(most, 16) + 1), *range(16, most, 8), most})
    made = job_model(sizes, [prior_rate(size) for size in sizes], explored=most)
    assert made is not None
    return made


def _summed_up(taken: Snapshot, happened: Sequence[Happening], now: float, policy: str) -> WhatIf:
    jobs = {facts.key: facts for facts in taken.jobs if facts.state == "active"}
    ends = sorted(one.time - now for one in happened if one.ended)
    starts = _starts(jobs, happened, now)
    changes = [one for one in happened if one.before and one.after]
    return WhatIf(
        policy=policy,
        jobs=len(jobs),
        ended=len(ends),
        avg_completion=sum(ends) / len(ends) if ends else 0.0,
        p50=percentile(ends, 50) if ends else 0.0,
        p90=percentile(ends, 90) if ends else 0.0,
        makespan=ends[-1] if ends else 0.0,
        started=len(starts),
        avg_wait=sum(starts) / len(starts) if starts else 0.0,
        changes=len(changes),
        gpu_hours_lost=sum(_lost(jobs[one.key], one) for one in changes if one.key in jobs) / 3600,
    )


def _starts(jobs: dict[str, JobFacts], happened: Sequence[Happening], now: float) -> list[float]:
    first: dict[str, float] = {}
    for one in happened:
        if one.after and not one.before and one.key in jobs and not any(jobs[one.key].live):
            first.setdefault(one.key, one.time - now)
    return list(first.values())


def _lost(facts: JobFacts, change: Happening) -> float:
    """GPU-seconds in the pause of a change."""
    pause = facts.rescale_seconds or (facts.model.pause if facts.model is not None else None) or 0.0
    gpus = facts.roles[facts.lead].shape.gpus if facts.roles else 0
    return pause * gpus * change.after
