"""The pace of a training of late, and so when it will be done if it goes on like this. Time is an argument."""

from collections import deque

WINDOW = 20.0  # seconds that count as of late, and more where reports are rarer than that


class Pace:
    """Fed with what is done so far. Whoever goes back to a checkpoint begins anew."""

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, done: int) -> None:
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()
        if self._seen and done == self._seen[-1][1]:
            return
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self._window:
            self._seen.popleft()

    def rate(self) -> float | None:
        """Per second; None while nobody can say."""
        if len(self._seen) < 2:
            return None
        (since, before), (until, done) = self._seen[0], self._seen[-1]
        return (done - before) / (until - since) if until > since else None

    def left(self, now: float, total: int) -> float | None:
        """Seconds to the end; None while nobody can say."""
        rate = self.rate()
        if not rate:
            return None
        seen, done = self._seen[-1]
        return max(0.0, (total - done) / rate - (now - seen))
