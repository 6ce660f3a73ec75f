"""Throughput and loss of a job from its trainers' reports: samples per second over a window, mean of newest losses."""

from collections import deque

WINDOW = 10.0


class TrainingMetrics:
    def __init__(self, now: float) -> None:
        self._samples: deque[tuple[float, float]] = deque()
        self._losses: dict[int, float] = {}
        self._since = now
        self.total = 0.0  # samples ever reported,
        self.reports = 0  # and how often
        self.records = 0  # in one pass, as trainers declare
        self.pause: float | None = None  # seconds of the last pause of all work

    def add(self, trainer: int, samples: float, loss: float | None, now: float) -> None:
        self.total += samples
        if samples:
            self.reports += 1
            self._samples.append((now, samples))
        if loss is not None:
            self._losses[trainer] = loss

    def forget(self, trainer: int) -> None:
        if len(self._losses) > 1:  # the last loss stays until there is a newer one
            self._losses.pop(trainer, None)

    def throughput(self, now: float) -> float:
        while self._samples and self._samples[0][0] < now - WINDOW:
            self._samples.popleft()
        span = self.span(now)
        return sum(samples for _, samples in self._samples) / span if span > 0 else 0.0

    def span(self, now: float) -> float:
        """Seconds that the throughput is the mean of."""
        return min(WINDOW, now - self._since)

    def loss(self) -> float | None:
        return sum(self._losses.values()) / len(self._losses) if self._losses else None
