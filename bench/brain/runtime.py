"""Jobs recorded on the whole runtime: job service, `edl trainer`, `edl pserver`, and workers that train by them.

The sizes are ours: the trainer asks for the largest and is granted one worker more at a time, with thresholds at which
it changes nothing. The samples are its own, as it would tell them to Brain.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from bench.brain.recordings import Recording
from tests.runtime.easydl_trainer.cluster import Cluster, cluster

from edl.protocol.job_facts import Sample

MOST, EACH = 10, 3
PERIOD = 2.5  # seconds of a sample: a twelfth of the usual, so all is noisier than in use
STILL = {"max_workers": MOST, "cold_workers": MOST, "tolerance": -1, "hot": 9, "memory_hot": 9, "cold": 0}
# What the policy was held to once: it was changed after what these showed, so they count as seen.
VALIDATION: dict[str, dict[str, str]] = {
    "dense": {"DENSE": "600000", "OWN": "0.15"},
    "rows": {"ROWS": "3000", "OWN": "0.05", "JITTER": "0.3"},
    "lockstep": {"DENSE": "1000", "OWN": "0.08", "JITTER": "0.6", "SYNC": "1"},
    "computing": {"BURN": "0.03", "OWN": "0.04"},
    "waiting": {"OWN": "0.12", "JITTER": "0.8"},
}
# Other shapes, recorded when the policy was done: nothing may be chosen by what they show.
HELD_OUT: dict[str, dict[str, str]] = {
    "late": {"OWN": "0.16", "SHARED": "0.02", "JITTER": "0.2"},
    "stragglers": {"DENSE": "1000", "OWN": "0.05", "JITTER": "1.0", "SYNC": "1"},
    "single": {"SHARED": "0.03"},
    "gangs": {"OWN": "0.1", "JITTER": "0.2", "GANG": "3"},
}
JOBS = VALIDATION | HELD_OUT


def record_on_runtime(name: str) -> Recording:
    env = {**JOBS[name], "EDL_PLAN_SECONDS": str(PERIOD), "EDL_PLAN_SETTINGS": json.dumps(STILL)}
    env |= {"EDL_TASK_LEASE": "2"}  # workers report as much more often
    sizes: dict[int, list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder), env, worker=["-m", "bench.brain.worker"], room=1) as made,
    ):
        made.start_trainer()
        for size in range(1, MOST + 1):
            made.room = size
            sizes[size] = [_told(sample) for sample in _samples(made, size)]
            print(f"{name}: {size} workers: {[round(rate) for rate, _ in sizes[size]]} samples/s", flush=True)
    words = ", ".join(f"{key.lower()} {value}" for key, value in JOBS[name].items())
    return Recording(name, f"our runtime: {words}", sizes)


def _samples(made: Cluster, size: int, within: float = 90.0) -> list[Sample]:
    found: dict[float, Sample] = {}
    until = time.monotonic() + within
    while len(found) < EACH:
        assert time.monotonic() < until, f"only {len(found)} samples of {size} workers; they end:\n{made.report()}"
        time.sleep(0.2)
        for sample in _newest(made):
            if sample.workers == size and sample.pods:
                found[sample.time] = sample
    return [found[at] for at in sorted(found)]


def _newest(made: Cluster) -> Iterator[Sample]:
    yield from (msgspec.convert(each, Sample) for each in made.state().get("samples", ()))


def _told(sample: Sample) -> tuple[float, float]:
    """Samples per second, and the cores that the parameter server used."""
    return round(sample.throughput, 3), round(max((use.cpu for use in sample.of("ps")), default=0.0), 4)
