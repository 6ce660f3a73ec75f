"""The cases of chaos: what may happen to a job, drawn at random from a seed.

One pod that has the state of the training is left alone until all others have it too: the loss of all workers is
another case (a checkpoint's), and would make nothing of the ledger.
"""

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.tier_frameworks.torchrun.group import until
from tests.tier_frameworks.torchrun.pods import Pods

MOST = 4
SETTLED = 0.7  # how often the next case waits until all train
PATIENCE = 180.0


class Chaos:
    """`workers`: of each pod."""

    def __init__(self, made: Pods, seed: int, workers: int = 1) -> None:
        self._made, self._random, self._names, self._workers = made, random.Random(seed), 0, workers
        self._kept = ""
        """One that trained when all did; it is not touched until all do again."""
        self.done: Counter[str] = Counter()
        self._tail = _Tail(made.trace)

    def run(self, seconds: float) -> None:
        self._join()
        self._settle()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            case = self._random.choice(self._possible())
            self.done[case.__name__.strip("_")] += 1
            print(f"{case.__name__.strip('_')}: {', '.join(self._made.pods)}", flush=True)
            case()
            if self._random.random() < SETTLED:
                self._settle()
        self._settle()

    def _possible(self) -> list[Callable[[], None]]:
        cases: list[Callable[[], None]] = [self._lose_service]
        victims = len(self._victims())
        if len(self._made.pods) < MOST:
            cases += [self._join, self._join]
        if len(self._made.pods) < MOST - 1:
            cases.append(self._two_join)
        if victims:
            cases += [self._terminate, self._kill, self._kill_worker, self._stop_worker, self._replace]
        if victims > 1:
            cases += [self._kill_two, self._kill_and_terminate]
        return cases

    def _victims(self) -> list[str]:
        return [name for name in self._made.pods if name != self._kept]

    def _victim(self) -> str:
        return self._random.choice(self._victims())

    # ---- cases

    def _join(self) -> None:
        self._names += 1
        self._made.start(f"p{self._names:03}", workers=self._workers, restarts=1_000_000, pause=0.05)

    def _two_join(self) -> None:
        self._join()
        self._join()

    def _terminate(self) -> None:
        self._made.terminate(self._victim())
        self._plan()

    def _kill(self) -> None:
        self._made.kill(self._victim())
        self._plan()

    def _kill_two(self) -> None:
        for name in self._random.sample(self._victims(), 2):
            self._made.kill(name)
        self._plan()

    def _kill_and_terminate(self) -> None:
        first, second = self._random.sample(self._victims(), 2)
        self._made.kill(first)
        self._made.terminate(second)
        self._plan()

    def _replace(self) -> None:
        self._kill()
        self._join()

    def _kill_worker(self) -> None:
        self._signal(signal.SIGKILL)

    def _stop_worker(self) -> None:
        """For longer than an agent is patient: it ends the process, and starts its successor."""
        self._signal(signal.SIGSTOP)

    def _signal(self, number: signal.Signals) -> None:
        pids = self._made.pods[self._victim()].pids()
        for pid in [self._random.choice(pids)] if len(pids) > 1 else pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _lose_service(self) -> None:
        self._made.leader.down()
        time.sleep(self._random.uniform(0.0, 0.5))  # what happens meanwhile is drawn, too
        self._made.leader.up()

    # ---- what follows

    def _plan(self) -> None:
        self._made.leader.edit(target=len(self._made.pods))

    def _settle(self) -> None:
        """All pods that are there train together, and nobody else."""
        size = len(self._made.pods) * self._workers
        since = time.monotonic()

        def ask() -> bool:
            fresh = [line for line in self._tail.read() if line["what"] == "did" and line["at"] > since]
            newest = max((line["generation"] for line in fresh), default=0)
            ranks = Counter(line["rank"] for line in fresh if line["world"] == size and line["generation"] == newest)
            return all(ranks[rank] >= 2 for rank in range(size))

        until(ask, f"training of {size}: {', '.join(self._made.pods)}", PATIENCE)
        self._kept = self._random.choice(sorted(self._made.pods))


class _Tail:
    """The newest lines of all workers: looking at all of them again and again would take ever longer."""

    def __init__(self, folder: Path, keep: int = 400) -> None:
        self._folder, self._keep = folder, keep
        self._places: dict[Path, int] = {}
        self._lines: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        for file in self._folder.glob("*.jsonl"):
            self._lines += self._more(file)
        self._lines = sorted(self._lines, key=lambda line: float(line["at"]))[-self._keep :]
        return self._lines

    def _more(self, file: Path) -> list[dict[str, Any]]:
        with file.open("rb") as opened:
            opened.seek(self._places.get(file, 0))
            whole = opened.read().rpartition(b"\n")[0]
        self._places[file] = self._places.get(file, 0) + (len(whole) + 1 if whole else 0)
        return [json.loads(line) for line in whole.splitlines()]
