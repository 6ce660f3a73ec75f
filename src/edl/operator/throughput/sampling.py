"""Samples the throughput of one job from its reports: a sample is a stretch in which nobody came or went.

Reports come from all kinds of runtimes. Who names its workers is believed, within the job's bounds; of others the size
is what the operator sees, and a stretch in which that changed is no sample. It is what the change cost instead: time
without progress is its pause, unless the job tells that itself.
"""

import math
from collections.abc import Callable

from msgspec.structs import replace

from edl.protocol.progress import Progress
from edl.throughput.measured_model import LONGEST_PAUSE
from edl.throughput.measurements import MeasuredPoint, Measurements, has_news, sensible, with_sample

LEAST_SECONDS = 1.0  # of a sample: shorter ones are gathered
FADES = 60.0  # seconds of stretches that say how much work a step is
LARGEST = 1 << 53

Clock = Callable[[], float]
Where = tuple[int, int, int]
"""Workers, nodes, batch."""


class Sampler:
    """`revision` counts news: another curve, pause or noise. What was measured before may be handed in at any time."""

    def __init__(self, clock: Clock) -> None:
        self.measured = Measurements()
        self.revision = 0
        self._clock, self._known = clock, Measurements()
        self._restored = False
        self._seen: tuple[int, int] = (0, 0)
        self._changed_at = -math.inf  # when the operator saw another size
        self._where: Where | None = None
        self._last: float | None = None
        self._done: int | None = None
        self._seconds, self._work, self._steps = 0.0, 0.0, 0.0
        """Of the sample that is being gathered."""
        self._per_step = (0.0, 0.0)
        """Work and steps of late."""
        self._stopped: tuple[float, float] | None = None
        """Seconds from the last report before a change to the first one after it, and the work that was done."""
        self._estimated = False
        """The pause is one that nobody has told."""

    def restore(self, kept: Measurements | None) -> None:
        """What an earlier leader has kept; what was measured since comes on top."""
        if self._restored:
            return
        self._restored = True
        if kept is None:
            return
        measured = self.measured
        for point in kept.points[::-1]:
            if all(point.where != one.where for one in measured.points) and sensible(point):
                measured = replace(measured, points=(point, *measured.points))
        self.measured = self._known = replace(
            measured,
            steps=measured.steps if self.measured.points else kept.steps,
            per_step=measured.per_step or kept.per_step,
            done=measured.done if measured.done is not None else kept.done,
            total=measured.total if measured.total is not None else kept.total,
            pause=measured.pause if measured.pause is not None else kept.pause,
            noise=measured.noise if measured.noise is not None else kept.noise,
            tuned_batch=measured.tuned_batch if measured.tuned_batch is not None else kept.tuned_batch,
        )
        self.revision += 1
        self._estimated = self.measured.pause is not None

    def observe(self, size: int, nodes: int) -> None:
        """As the operator sees the job now."""
        seen = size, nodes
        if seen != self._seen:
            self._seen, self._changed_at = seen, self._clock()

    def add(self, report: Progress, most: int) -> None:
        """`most`: more workers than that are not believed."""
        now = self._clock()
        self._note_figures(report)
        self._sample(report, self._place(report, most), now)
        if has_news(self._known, self.measured):
            self._known = self.measured
            self.revision += 1

    def _note_figures(self, report: Progress) -> None:
        known = self.measured
        self._estimated = self._estimated and report.pause is None
        self.measured = replace(
            known,
            done=_count(report.done, known.done),
            total=_count(report.total, known.total),
            pause=_within(report.pause, 0.0, LONGEST_PAUSE, known.pause),
            noise=_within(report.noise, 1e-9, 1e15, known.noise),
            tuned_batch=_count(report.tuned_batch, known.tuned_batch) or None,
        )

    def _place(self, report: Progress, most: int) -> Where | None:
        """None if it is not known who trains, or is beyond belief."""
        size, on = self._seen
        workers = size if report.workers is None else report.workers
        if not 1 <= workers <= max(most, 1):
            return None
        nodes = report.nodes if report.nodes is not None else (on if workers == size else 0)
        batch = report.batch if report.batch is not None and 0 < report.batch < LARGEST else 0
        return workers, nodes if 0 < nodes <= workers else 0, batch

    def _sample(self, report: Progress, where: Where | None, now: float) -> None:
        last, self._last = self._last, now
        before, self._where = self._where, where
        done, self._done = self._done, report.done if report.done is not None else self._done
        pace = report.throughput if report.throughput is not None and 0 < report.throughput < math.inf else None
        told = report.span if report.span is not None and 0 < report.span < math.inf else None
        sure = told is not None and report.workers is not None and pace is not None
        if last is None and sure and told is not None:
            last = now - told
        if where is None or last is None or now <= last:
            self._begin()
            return
        steps = float(max(0, report.done - done)) if report.done is not None and done is not None else 0.0
        span = now - last
        if told is not None:
            span = told if sure and before != where else min(told, span)
        work = pace * span if pace is not None else 0.0
        if not self._undisturbed(report, before, where, now - (told or span), last):
            self._begin()
            if before is not None and (before[:2] != where[:2] or self._changed_at > last):
                self._stopped = now - last, work if pace is not None else steps
            if not sure:
                return
        self._gather(where, span, work, steps)

    def _undisturbed(self, report: Progress, before: Where | None, where: Where, since: float, last: float) -> bool:
        if before is None or before != where:
            return False
        return report.workers is not None or self._changed_at <= min(since, last)

    def _begin(self) -> None:
        self._seconds = self._work = self._steps = 0.0

    def _gather(self, where: Where, seconds: float, work: float, steps: float) -> None:
        self._seconds, self._work, self._steps = self._seconds + seconds, self._work + work, self._steps + steps
        if self._seconds < LEAST_SECONDS:
            return
        counts_steps = self._work <= 0 and (self.measured.steps or not self.measured.points)
        if self._work > 0 and self.measured.steps:  # it has learned to tell samples: steps do not compare with them
            self.measured = replace(self.measured, points=(), steps=False)
        amount = self._steps if counts_steps else self._work
        if amount > 0:
            self.measured = replace(self.measured, steps=counts_steps, per_step=self._work_per_step(where[2]))
            self.measured = with_sample(
                self.measured, MeasuredPoint(*where, amount / self._seconds, round(self._seconds, 3))
            )
            self._note_pause(amount / self._seconds)
            self._begin()

    def _work_per_step(self, batch: int) -> float | None:
        """Tasks end in lumps: the ratio is that of some time. Until there is one, a step is a batch, if one is told."""
        fades = math.exp(-self._seconds / FADES)
        work, steps = self._per_step
        work, steps = self._per_step = work * fades + self._work, steps * fades + self._steps
        return work / steps if work > 0 and steps > 0 else self.measured.per_step or float(batch) or None

    def _note_pause(self, rate: float) -> None:
        """By the first pace after a change: what was not done meanwhile would have taken so long."""
        if self._stopped is None:
            return
        seconds, work = self._stopped
        self._stopped = None
        if self.measured.pause is None or self._estimated:
            lost = max(0.0, seconds - work / rate)
            self.measured = replace(self.measured, pause=round(min(lost, LONGEST_PAUSE), 2))
            self._estimated = True


def _count(reported: int | None, known: int | None) -> int | None:
    return reported if reported is not None and 0 <= reported < LARGEST else known


def _within(value: float | None, least: float, most: float, known: float | None) -> float | None:
    return value if value is not None and least <= value <= most else known
