"""The progress of one job as its pods report it to this leader: the last figures, the pace, the mean, the time left.

In memory and safe to lose. Figures that were read out of log lines count only until the job reports itself.
"""

from edl.operator.job_service.group_commit import Clock
from edl.operator.job_service.refusals import RefusedError
from edl.protocol.errors import ErrorCode
from edl.protocol.pace import Pace
from edl.protocol.progress import LOG, LastProgress, Progress, ProgressReport

FINISHED = 100
LARGEST = 1 << 53  # of a figure: JSON has integers without end, and floats hold no more of them
_ANY = ("loss",)  # it may diverge, and nothing is computed from it


def check_figures(report: Progress) -> None:
    """RefusedError if there is one that could not be reckoned with: whoever looks at the job's progress would fail."""
    for name in Progress.__struct_fields__:
        value = getattr(report, name)
        if value is not None and name not in _ANY and not -LARGEST <= value <= LARGEST:
            message = f"{name} is beyond belief: it must lie between -{LARGEST} and {LARGEST}"
            raise RefusedError(400, ErrorCode.BAD_NUMBER, message)


class ReportedProgress:
    def __init__(self, clock: Clock) -> None:
        self.progress = Progress()
        self.at: float | None = None
        """When the last report came."""
        self._clock, self._pace = clock, Pace()
        self._first: float | None = None
        self._samples, self._measured = 0.0, 0.0
        self._known = False  # somebody who knows has reported
        self._moved: float | None = None

    def add(self, report: ProgressReport) -> bool:
        """Whether it counts."""
        if report.source == LOG and self._known:
            return False
        now = self._clock()
        self._known = self._known or (report.said and report.source != LOG)
        self._measure(report, now)
        if report.said and (self._moved is None or _moves(report, self.progress)):
            self._moved = now
        self.progress, self.at = self.progress.updated(_completed(report, self.progress)), now
        if self.progress.done is not None:
            self._pace.add(now, self.progress.done)
        return True

    def _measure(self, report: Progress, now: float) -> None:
        """A report's throughput is that of the time since the one before."""
        if self._first is None and report.said:
            self._first = now
        elif report.throughput is not None and self.at is not None:
            self._samples += report.throughput * (now - self.at)
            self._measured += now - self.at

    def last(self) -> LastProgress | None:
        if self.at is None:
            return None
        age = self._clock() - self.at
        figures = {field: getattr(self.progress, field) for field in Progress.__struct_fields__}
        seconds = self.at - self._first if self._first is not None else 0.0
        return LastProgress(
            **figures | {"left": self._left(age)},
            age=age,
            rate=self._pace.rate(),
            mean=self._samples / self._measured if self._measured else None,
            seconds=seconds or None,
            idle=self._clock() - self._moved if self._moved is not None else None,
        )

    def _left(self, age: float) -> float | None:
        """Measured here if it can be: a script that resumed often counts the steps of before as its own."""
        progress = self.progress
        if progress.percent == FINISHED:
            return 0.0
        measured = self._pace.left(self._clock(), progress.total) if progress.total else None
        if measured is not None or progress.left is None:
            return measured
        return max(0.0, progress.left - age)


def _moves(report: Progress, before: Progress) -> bool:
    """Whether a report shows that something was done since the last one."""
    if report.throughput:
        return True
    figures = ((getattr(report, name), getattr(before, name)) for name in ("done", "pass_index", "epoch", "loss"))
    return any(new is not None and new != old for new, old in figures)


def _completed(report: Progress, before: Progress) -> Progress:
    """An update of Hugging Face's at the end says 100 % and no steps: they are all done."""
    if report.done == report.total == FINISHED and before.total not in (None, FINISHED):
        return ProgressReport().updated(report).updated(Progress(done=before.total, total=before.total))
    return report
