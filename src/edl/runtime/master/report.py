"""How a job is doing, from what its trainers report: samples per second over a window, mean of their newest losses."""

from collections import deque

WINDOW = 10.0


class Report:
    def __init__(self, now: float) -> None:
        self._samples: deque[tuple[float, float]] = deque()
        self._losses: dict[int, float] = {}
        self._since = now
        self.total = 0.0  # samples ever reported,
        self.reports = 0  # and how often
        self.records = 0  # in one pass, as trainers say
        self.pause: float | None = None  # seconds that the last stop of all work took

    def add(self, trainer: int, samples: float, loss: float | None, now: float) -> None:
        self.total += samples
        if samples:
            self.reports += 1
            self._samples.append((now, samples))
        if loss is not None:
            self._losses[trainer] = loss

    def forget(self, trainer: int) -> None:
        if len(self._losses) > 1:  # the last one's loss stays the job's until somebody has a newer one
            self._losses.pop(trainer, None)

    def throughput(self, now: float) -> float:
        while self._samples and self._samples[0][0] < now - WINDOW:
            self._samples.popleft()
        span = min(WINDOW, now - self._since)
        return sum(samples for _, samples in self._samples) / span if span > 0 else 0.0

    def loss(self) -> float | None:
        return sum(self._losses.values()) / len(self._losses) if self._losses else None
