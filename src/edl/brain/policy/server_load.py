"""CPU load of the parameter servers, from the newest samples."""

from statistics import mean

from edl.brain.policy.history import latest_samples
from edl.protocol.job_facts import JobFacts, PodUsage, Sample
from edl.protocol.resources import SERVER

SAMPLES = 3  # that a load is averaged over


def cpu_loads(samples: list[Sample]) -> dict[str, float]:
    """By slot: the mean share of its cores that a server used, for servers that every sample knows."""
    found: dict[str, list[float]] = {}
    for sample in samples:
        for slot, use in server_usage(sample).items():
            if use.cpu_limit > 0:
                found.setdefault(slot, []).append(use.cpu / use.cpu_limit)
    return {slot: mean(shares) for slot, shares in found.items() if len(shares) == len(samples)}


def busiest_load(facts: JobFacts) -> float:
    return max(cpu_loads(latest_samples(facts, SAMPLES)).values(), default=0.0)


def server_usage(sample: Sample) -> dict[str, PodUsage]:
    return {slot: use for slot, use in sample.pods.items() if slot.rpartition("-")[0] == SERVER}
