"""Recorded jobs: what real processes did at every size, kept so that decisions can be replayed on it."""

import multiprocessing
import random
import time
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event, Lock
from statistics import mean

import msgspec

from edl.protocol.job_facts import PodUsage, Sample

PERIOD, PAUSE = 30.0, 2.0
QUEUES = {"queue-6": (0.05, 0.01), "queue-12": (0.11, 0.01), "queue-3": (0.02, 0.01)}  # own seconds, shared seconds


class Recording(msgspec.Struct):
    """`sizes`: by number of workers, what was measured in several stretches: samples per second, server's cores."""

    name: str
    how: str
    sizes: dict[int, list[tuple[float, float]]]

    def best(self) -> tuple[int, float]:
        means = {size: mean(rate for rate, _ in found) for size, found in self.sizes.items()}
        size = max(means, key=lambda size: means[size])
        return size, means[size]

    def sample(self, workers: int, now: float, rng: random.Random) -> Sample:
        rate, busy = rng.choice(self.sizes[min(workers, max(self.sizes))])
        use = PodUsage(busy, 500, 1.0, 2048)
        return Sample(now, PERIOD - PAUSE, workers, rate, 1, {"ps-0": use})


def _work(
    lock: Lock, stop: Event, own: float, shared: float, done: "Synchronized[int]", busy: "Synchronized[float]"
) -> None:
    while not stop.is_set():
        time.sleep(own)
        with lock:
            began = time.perf_counter()
            time.sleep(shared)
            busy.value += time.perf_counter() - began
            done.value += 1


def record_queue(name: str, stretch: float = 1.5, stretches: int = 4) -> Recording:
    """Real processes that each work for a while and then queue for one thing, at every size up to 16."""
    own, shared = QUEUES[name]
    sizes: dict[int, list[tuple[float, float]]] = {}
    for size in range(1, 17):
        lock, stop = multiprocessing.Lock(), multiprocessing.Event()
        done, busy = multiprocessing.Value("i", 0), multiprocessing.Value("d", 0.0)
        workers = [
            multiprocessing.Process(target=_work, args=(lock, stop, own, shared, done, busy)) for _ in range(size)
        ]
        for worker in workers:
            worker.start()
        time.sleep(0.5)
        sizes[size] = []
        for _ in range(stretches):
            with lock:
                before, used, at = done.value, busy.value, time.perf_counter()
            time.sleep(stretch)
            with lock:
                passed = time.perf_counter() - at
                sizes[size].append((round((done.value - before) / passed, 3), round((busy.value - used) / passed, 4)))
        stop.set()
        for worker in workers:
            worker.join()
    return Recording(name, f"own work {own} s, then a queue for {shared} s", sizes)
