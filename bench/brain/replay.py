"""Decisions replayed on recorded samples: the shipping policy, and the nine rules beside it."""

import random
from collections.abc import Callable
from statistics import mean

import msgspec
from bench.brain.nine_rules import optimize_job_worker_create_resource, optimize_job_worker_resource
from bench.brain.recordings import PAUSE, PERIOD, Recording

from edl.brain.policy.decide import decide
from edl.brain.policy.evaluation import evaluated
from edl.brain.policy.history import median_throughput
from edl.brain.policy.settings import DEFAULTS, Settings
from edl.brain.policy.startup import startup_plan
from edl.protocol.job_facts import Features, JobFacts, PlanRecord, Sample
from edl.protocol.resources import WORKER

HOUR = 3600.0


def replay(
    recording: Recording, choose: Callable[[list[Sample], int], int], first: int, seed: int
) -> tuple[float, float]:
    """Samples trained in an hour, and the workers on average. A change of size costs a pause."""
    rng, samples, workers = random.Random(seed), list[Sample](), first
    trained = used = now = 0.0
    while now < HOUR:
        now += PERIOD
        sample = recording.sample(workers, now, rng)
        samples.append(sample)
        used += workers * PERIOD
        wanted = max(1, min(choose(samples, workers), max(recording.sizes)))
        trained += sample.throughput * (PERIOD - (PAUSE if wanted != workers else 0.0))
        workers = wanted
    return trained, used / HOUR


class Ours:
    """The shipping policy, with the bookkeeping that a trainer does. Only workers are in play here, so it is told of
    throughput alone; the nine rules are also told how busy the server is, without which they say nothing."""

    def __init__(self, most: int) -> None:
        self._settings = Settings(max_workers=most)
        self._plans: list[PlanRecord] = []

    def __call__(self, samples: list[Sample], workers: int) -> int:
        now = samples[-1].time
        samples = [msgspec.structs.replace(sample, pods={}) for sample in samples]
        if not self._plans:
            self._plans.append(PlanRecord(1, 0.0, startup_plan(Features(), [], None, self._settings)))
        plan = self._plans[-1].plan
        facts = JobFacts(features=Features(), present=plan.roles, granted={WORKER: workers}, samples=tuple(samples),
                         plans=tuple(self._plans), remaining=1e12, pause=PAUSE)  # fmt: skip
        decision = decide(facts, now, self._settings)
        if decision.evaluation is not None:
            self._plans[-1] = evaluated(self._plans[-1], decision.evaluation)
        if decision.plan is not None:
            before = median_throughput(
                [one for one in samples if one.time > self._plans[-1].time][-self._settings.samples :]
            )
            self._plans.append(PlanRecord(len(self._plans) + 1, now, decision.plan, before))
        return self._plans[-1].plan.roles[WORKER].replicas


class Nine:
    """Rule 7 begins, rule 9 goes on as its master asks it: first after 90 s (five steps seen, a minute at one size), in
    phase initial; then the servers have their turn, of which there is nothing to say here; then sample once, and
    stable. A plan at most every five minutes."""

    def __init__(self) -> None:
        self._last, self._phases = -300.0, ["initial", "servers", "sample"]

    def __call__(self, samples: list[Sample], workers: int) -> int:
        now = samples[-1].time
        if now < 90 or now - self._last < 300:
            return workers
        phase = self._phases.pop(0) if self._phases else "stable"
        one_worker = 1e6  # seconds: a long job
        answer = optimize_job_worker_resource(samples, phase=phase, one_worker=one_worker)
        if phase == "servers" or answer is None or answer.count is None:
            return workers
        self._last = now
        return answer.count


def regrets(which: str, recordings: list[Recording], seeds: int) -> None:
    print(f"\nregret over an hour against the best fixed size, mean of {seeds} replays: {which}")
    print(f"{'job':12} {'best size':>9} {'Brain':>8} {'workers':>8} {'nine rules':>11} {'workers':>8}   recorded how")
    means: list[tuple[float, float]] = []
    for recording in recordings:
        size, rate = recording.best()
        most, ideal = max(recording.sizes), rate * HOUR
        ours = [replay(recording, Ours(most), DEFAULTS.cold_workers, seed) for seed in range(seeds)]
        first = optimize_job_worker_create_resource([]).count or 1
        nine = [replay(recording, Nine(), first, seed) for seed in range(seeds)]
        lost = [1 - mean(found for found, _ in each) / ideal for each in (ours, nine)]
        used = [mean(workers for _, workers in each) for each in (ours, nine)]
        means.append((lost[0], lost[1]))
        cells = f"{lost[0]:8.1%} {used[0]:8.1f} {lost[1]:11.1%} {used[1]:8.1f}"
        print(f"{recording.name:12} {size:9} {cells}   {recording.how}")
    print(f"{'mean':12} {'':9} {mean(ours for ours, _ in means):8.1%} {'':8} {mean(nine for _, nine in means):11.1%}")
