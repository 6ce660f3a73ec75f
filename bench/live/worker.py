"""One worker of a job that only sleeps, as fast as a declared curve says for the workers that are alive.

Workers find each other by files in a directory of the job. The one with the lowest index does the steps and reports
them; whoever comes or goes stops it for the pause of a change. Needs the standard library and the call that reports.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from edl.runtime.environment import Environment
from edl.runtime.torch.service_call import ProgressCall

TICK = 0.1
EVERY = 1.0  # seconds between reports
ALIVE = 3.0  # a worker that was not heard of for so long is gone


class Worker:
    def __init__(self, folder: Path, rates: list[float], total: float, pause: float) -> None:
        self._folder, self._rates, self._total, self._pause = folder, rates, total, pause
        here = Environment.read(os.environ)
        self._call = ProgressCall.of(here)
        self._own = folder / f"alive-{int(os.environ['EDL_INDEX']):04}"
        self._size = 0
        self._since, self._before = time.monotonic(), 0.0
        self._paused = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._leave)
        self._folder.mkdir(parents=True, exist_ok=True)
        while not (self._folder / "finished").exists():
            self._own.touch()
            alive = self._alive()
            if alive and alive[0] == self._own.name:
                self._lead(len(alive))
            else:
                self._size = 0
                time.sleep(TICK)
        return 0

    def _alive(self) -> list[str]:
        now = time.time()
        found = []
        for file in self._folder.glob("alive-*"):
            try:
                fresh = now - file.stat().st_mtime < ALIVE
            except FileNotFoundError:
                continue
            if fresh:
                found.append(file.name)
        return sorted(found)

    def _lead(self, size: int) -> None:
        done = self._done()
        if size != self._size:
            self._paused, self._size = self._size > 0 or done > 0, size
            time.sleep(self._pause if self._paused else 0.0)
            self._since, self._before = time.monotonic(), done
        begun = time.monotonic()
        time.sleep(TICK)
        done += self._rates[min(size, len(self._rates)) - 1] * (time.monotonic() - begun)
        self._save(done)
        if time.monotonic() - self._since >= EVERY or done >= self._total:
            self._report(done)
        if done >= self._total:
            (self._folder / "finished").touch()

    def _report(self, done: float) -> None:
        now = time.monotonic()
        span = now - self._since
        report: dict[str, object] = {
            "throughput": (done - self._before) / span,
            "span": span,
            "workers": self._size,
            "done": min(int(done), int(self._total)),
            "total": int(self._total),
        }
        if self._paused:
            report["pause"] = self._pause
        try:
            self._call.send(report)
        except OSError as error:
            print(f"not reported: {error}", file=sys.stderr)
        self._since, self._before = time.monotonic(), done

    def _done(self) -> float:
        try:
            return float((self._folder / "done").read_text())
        except (FileNotFoundError, ValueError):
            return 0.0

    def _save(self, done: float) -> None:
        new = self._own.with_name(f"{self._own.name}.done")
        new.write_text(str(done))
        new.rename(self._folder / "done")

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self._own.unlink(missing_ok=True)
        sys.stdout.flush()
        os._exit(143)


if __name__ == "__main__":
    job = json.loads(os.environ["CURVE"])
    sys.exit(Worker(Path(job["folder"]), job["rates"], job["total"], job["pause"]).run())
