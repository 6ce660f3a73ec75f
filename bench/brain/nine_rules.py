"""The nine rules that a successor of EasyDL's Brain ships, written from their published behaviour, to be compared with.

Each has its own name there. They are for CPU jobs with parameter servers, know no capacity and no other job, and answer
with fixed numbers where we fit a curve. Units are ours: cores, MiB. `None` means that a rule has nothing to say.
"""

import math
from collections.abc import Sequence
from statistics import mean

import msgspec

from edl.protocol.job_facts import Sample
from edl.protocol.resources import SERVER, WORKER

GIB = 1024
MAX_WORKERS, MAX_SERVERS = 60, 15


class Answer(msgspec.Struct, frozen=True):
    """Of one role; None: as it is."""

    count: int | None = None
    cpu: float | None = None
    memory: int | None = None


def optimize_job_ps_cold_create_resource() -> Answer:
    """1: without any history."""
    return Answer(4, 12, 16 * GIB)


def optimize_job_ps_create_resource(history: Sequence[Sequence[Sample]]) -> Answer:
    """2: from the parameter servers' cores of past jobs; without any, rule 1."""
    totals = [_major([sum(use.cpu for use in sample.of(SERVER)) for sample in job]) for job in history]
    totals = [total for total in totals if total > 0]
    if not totals:
        return optimize_job_ps_cold_create_resource()
    whole = _major(totals)
    uses = [use for job in history for sample in job for use in sample.of(SERVER)]
    each = max(use.cpu for use in uses) + 4
    count = math.ceil(1.5 * whole / each)
    if count > MAX_SERVERS:
        count, each = MAX_SERVERS, math.ceil(1.5 * whole / MAX_SERVERS)
    return Answer(count, each, math.ceil(max(use.memory for use in uses) * 1.2))


def optimize_job_ps_init_adjust_resource(
    samples: Sequence[Sample], receives: float, one_worker: float
) -> Answer | None:
    """3: once, after the first samples. `receives` are the model's receive operations, `one_worker` the seconds that
    the whole job would take one worker."""
    if not samples or not samples[-1].of(SERVER):
        return None
    servers, workers = samples[-1].of(SERVER), max(samples[-1].workers, 1)
    per_server = receives / len(servers)
    cpu = math.ceil(0.08 * per_server) + 4 if per_server <= 150 else 16
    cpu = max(cpu, math.ceil(max(use.cpu for use in servers)) + 4)
    busiest = max(use.cpu for use in servers)
    target = 10 if one_worker <= 1800 else 20
    rate = cpu / (busiest / (15 / len(servers))) if busiest else target
    target = min(target, math.ceil(rate * workers))
    total = max(sum(use.cpu for use in sample.of(SERVER)) for sample in samples)
    return Answer(math.ceil(target / workers * total / cpu), cpu, math.ceil(1.2 * max(use.memory for use in servers)))


def optimize_job_hot_ps_resource(samples: Sequence[Sample]) -> dict[int, Answer]:
    """4: by server, what a hot one needs for 32 workers."""
    last = [sample for sample in samples[-3:] if sample.servers == samples[-1].servers] if samples else []
    found: dict[int, Answer] = {}
    if len(last) < 3:
        return found
    for index in range(len(last[-1].of(SERVER))):
        uses = [sample.of(SERVER)[index] for sample in last if len(sample.of(SERVER)) > index]
        used, limit = mean(use.cpu for use in uses), uses[-1].cpu_limit or 1
        if used / limit > 0.8:
            factor = min(32 / max(last[-1].workers, 1), 32 / used)
            found[index] = Answer(cpu=max(limit, math.ceil(used * factor)))
        if all(use.memory_limit and use.memory / use.memory_limit > 0.9 for use in uses):
            found[index] = Answer(memory=uses[-1].memory_limit + 8 * GIB)
    return found


def optimize_job_ps_resource_util(samples: Sequence[Sample], remaining: float) -> Answer | None:
    """5: cores that servers do not use, late in large jobs."""
    if not samples or remaining <= 3600 or not samples[-1].of(SERVER):
        return None
    uses = samples[-1].of(SERVER)
    load = max(use.cpu / (use.cpu_limit or 1) for use in uses)
    if not (samples[-1].workers >= 32 and load > 0.8):
        return None
    idle = [use for use in uses if use.cpu / (use.cpu_limit or 1) < 0.4]
    return Answer(cpu=math.ceil(max(use.cpu for use in idle)) + 4) if idle else None


def optimize_job_ps_oom_resource(servers: int, memory: int, used: Sequence[int]) -> Answer:
    """6: after servers were killed for want of memory."""
    if not used:
        return Answer(count=2 * servers) if memory >= 64 * GIB else Answer(memory=2 * memory)
    skewed = (max(used) - mean(used)) / max(used) > 0.2
    return Answer(memory=2 * max(used)) if skewed else Answer(count=2 * servers)


def optimize_job_worker_create_resource(history: Sequence[Sequence[Sample]]) -> Answer:
    """7: one worker to begin with."""
    uses = [use for job in history for sample in job for use in sample.of(WORKER)]
    cpu = max([12, *(math.ceil(use.cpu) for use in uses)])
    memory = max([16 * GIB, *(math.ceil(use.memory * 1.5) for use in uses)])
    return Answer(1, cpu, memory)


def optimize_job_worker_create_oom_resource(history: Sequence[tuple[int, bool]], last: int) -> Answer:
    """8: (memory, whether it was killed for want of it) of past workers, and what the last plan gave."""
    past = max((math.ceil(memory * 1.2) if killed else memory for memory, killed in history), default=0)
    return Answer(memory=max(past, last + 4 * GIB))


def optimize_job_worker_resource(samples: Sequence[Sample], *, phase: str, one_worker: float) -> Answer | None:
    """9: the number of workers, from how busy the servers are and whether the last change made it faster."""
    if not samples or not samples[-1].of(SERVER):
        return None
    same = [sample for sample in samples if sample.servers == samples[-1].servers]
    workers = same[-1].workers
    load = max(use.cpu / (use.cpu_limit or 1) for use in same[-1].of(SERVER))
    if load > 0.95:
        return Answer(count=max(1, workers - 4))
    state = _speed_state(same)
    if load >= 0.8 or state == "decelerated":
        return None
    wanted = math.ceil(0.8 / max(load, 0.01) * workers)
    if phase in ("initial", "sample"):
        count = 10 if one_worker <= 1800 else min(32, wanted)
    elif state == "increased":
        count = workers + min(4, wanted - workers)
    else:
        return None
    return Answer(count=min(MAX_WORKERS, count))


def _speed_state(samples: Sequence[Sample]) -> str:
    """Five records after the last change of the worker count against five before."""
    change = next((at for at in range(len(samples) - 1, 0, -1) if samples[at].workers != samples[at - 1].workers), None)
    if change is None or change < 5:
        return "increased"
    before, after = samples[change - 5 : change], samples[change : change + 5]
    if len(after) < 5:
        return "stable"
    old, new = mean(each.throughput for each in before), mean(each.throughput for each in after)
    return "decelerated" if new <= 0.9 * old else "increased" if new > old else "stable"


def _major(values: Sequence[float]) -> float:
    """The mean of the half around the median."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return mean(ordered[quarter : len(ordered) - quarter]) if ordered else 0.0
