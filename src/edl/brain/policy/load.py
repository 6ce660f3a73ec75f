"""How busy the parameter servers are."""

from statistics import mean

from .facts import JobFacts, PodUse, Sample
from .history import newest
from .units import SERVER

LOOKS = 3


def loads(samples: list[Sample]) -> dict[str, float]:
    """By slot: mean share of its cores that a server used. Empty unless all samples know all of them."""
    found: dict[str, list[float]] = {}
    for sample in samples:
        for slot, use in server_uses(sample).items():
            if use.cpu_limit > 0:
                found.setdefault(slot, []).append(use.cpu / use.cpu_limit)
    return {slot: mean(shares) for slot, shares in found.items() if len(shares) == len(samples)}


def busiest(facts: JobFacts) -> float:
    return max(loads(newest(facts, LOOKS)).values(), default=0.0)


def server_uses(sample: Sample) -> dict[str, PodUse]:
    return {slot: use for slot, use in sample.pods.items() if slot.rpartition("-")[0] == SERVER}
