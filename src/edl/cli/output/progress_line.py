"""Shows on a terminal how far a long simulation has come."""

import sys
import time


class ProgressLine:
    """One line on a terminal that says how far a run is; nothing where stderr is no terminal."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self.title = title
        self.shown = not quiet and sys.stderr.isatty()
        self.last = 0.0

    def __call__(self, done: int, jobs: int) -> None:
        if self.shown and (now := time.monotonic()) - self.last >= 0.2:
            self.last = now
            bar = "#" * (30 * done // jobs)
            print(f"\r{self.title}: [{bar:30}] {done}/{jobs} jobs", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
