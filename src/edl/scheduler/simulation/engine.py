"""Runs a trace from event to event: an arrival, an end, a change of nodes, a window that ends. Then it plans.

Plans follow each other at one moment until nothing changes, since pods come and go at once. Everything is decided by
the trace and the settings: the same input gives the same run.
"""

import math
from collections.abc import Callable, Sequence

from edl.scheduler.memory import Memory
from edl.scheduler.plan import Plan, plan
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.forecast import MOST_PLANS, forecast
from edl.scheduler.simulation.foretold import ForetoldStart
from edl.scheduler.simulation.trace import Trace
from edl.scheduler.simulation.world import ForeignPods, SimulatedJob, apply, free_gpus, snapshot

PLANS = 6  # at one moment, at most
GUARD = 600.0  # with jobs that wait and nothing to come, the scheduler is asked again after so long

GIVES_UP = 1000  # times in a row, without anything having happened


class StuckError(Exception):
    """Jobs are left that never run; the text names one."""


class Run:
    """One simulation. `clock` measures the time that decisions take; it decides nothing. `foretells`: says of every
    job that waits when it will start. `watch` is called after every event, with the plans that were made at it; it
    changes nothing."""

    def __init__(
        self,
        trace: Trace,
        settings: Settings,
        *,
        declares: bool,
        clock: Callable[[], float],
        foretells: bool = False,
        work_error: float = 0.0,
        watch: "Callable[[Run, Sequence[Plan]], object] | None" = None,
    ) -> None:
        self._foretells, self._watch = foretells, watch
        self.foretold: dict[str, ForetoldStart] = {}
        """By uid: what was said of jobs that had to wait."""
        self.trace = trace
        self.settings = settings
        self.clock = clock
        self.nodes = dict.fromkeys(trace.nodes, trace.gpus)
        self.changes = sorted(trace.changes, key=lambda change: change.time)
        order = sorted(trace.jobs, key=lambda job: (job.submit, job.name))
        self.jobs = [
            SimulatedJob(job, number, declares=declares, work_error=work_error) for number, job in enumerate(order)
        ]
        self.coming = list(reversed(self.jobs))
        self.present: list[SimulatedJob] = []
        self.memory = Memory()
        self.now = 0.0
        self.requeue: float | None = None
        self.decision_seconds: list[float] = []
        self.used: list[tuple[float, int, int]] = []
        """Time, GPUs used and GPUs there from then on."""
        self.quiet = 0
        self.foreign = ForeignPods()
        self.loads = sorted(trace.foreign, key=lambda load: load.time, reverse=True)

    def run(self, progress: Callable[[int, int], object] = lambda done, jobs: None) -> None:
        while self.coming or self.present:
            self._step()
            progress(len(self.jobs) - len(self.coming) - len(self.present), len(self.jobs))

    def _step(self) -> None:
        before = len(self.coming), len(self.present), len(self.changes), len(self.loads)
        self._advance(self._next_event())
        plans = self._plan()
        self.used.append((self.now, sum(job.size for job in self.present), sum(self.nodes.values())))
        after = len(self.coming), len(self.present), len(self.changes), len(self.loads)
        happened = before != after or any(job.size for job in self.present)
        self.quiet = 0 if happened else self.quiet + 1
        if self.quiet > GIVES_UP:
            raise StuckError(f"{self.present[0].trace.name} never runs: its minimum never fits")
        if self._watch is not None:
            self._watch(self, plans)

    def _next_event(self) -> float:
        times = [end for job in self.present if (end := job.ends_at()) is not None]
        if self.coming:
            times.append(self.coming[-1].trace.submit)
        if self.changes:
            times.append(self.changes[0].time)
        if self.loads:
            times.append(self.loads[-1].time)
        if self.requeue is not None:
            times.append(self.requeue)
        return max(self.now, min(times, default=self.now + GUARD))

    def _advance(self, now: float) -> None:
        self.now = now
        for job in self.present:
            ends = job.ends_at()
            job.advance(now)
            if ends is not None and ends <= now + 1e-6:
                job.left, job.ended, job.pods = 0.0, now, {}
        self.present = [job for job in self.present if job.ended is None]
        while self.changes and self.changes[0].time <= now:
            self._change_nodes()
        while self.loads and self.loads[-1].time <= now:
            self.foreign.want(self.loads.pop().gpus)
        while self.coming and self.coming[-1].trace.submit <= now:
            self.present.append(self.coming.pop())

    def _change_nodes(self) -> None:
        change = self.changes.pop(0)
        for name in change.nodes:
            if change.added:
                self.nodes[name] = self.trace.gpus
            elif self.nodes.pop(name, None) is not None:
                self.foreign.waiting += self.foreign.on.pop(name, 0)
                for job in self.present:
                    if name in job.pods:
                        job.place({node: pods for node, pods in job.pods.items() if node != name}, self.now)

    def _plan(self) -> list[Plan]:
        plans: list[Plan] = []
        self.foreign.settle(free_gpus(self.present, self.nodes, self.foreign))
        if not self.present:
            self.requeue = None
            return plans
        by_uid = {job.uid: job for job in self.present}
        for _ in range(PLANS):
            begun = self.clock()
            taken = snapshot(self.present, self.nodes, self.now, self.foreign)
            result = plan(taken, self.memory, now=self.now, settings=self.settings)
            self.decision_seconds.append(self.clock() - begun)
            self.memory = result.memory
            plans.append(result)
            changed = [apply(decision, by_uid[decision.uid], self.now) for decision in result.jobs]
            settled = self.foreign.settle(free_gpus(self.present, self.nodes, self.foreign))
            if not any(changed) and not settled:
                break
        waits = [since + math.nextafter(300.0, 301.0) for since in self.memory.waiting.values()]
        later = [time for time in (result.requeue_at, *waits) if time is not None and time > self.now]
        self.requeue = min(later, default=None)
        if self._foretells and any(not job.size and job.uid not in self.foretold for job in self.present):
            self._foretell()
        return plans

    def _foretell(self) -> None:
        taken = snapshot(self.present, self.nodes, self.now, self.foreign)
        found = forecast(taken, self.memory, now=self.now, settings=self.settings, plans=MOST_PLANS)
        for uid, said in found.items():
            self.foretold.setdefault(uid, ForetoldStart(self.now, said))
