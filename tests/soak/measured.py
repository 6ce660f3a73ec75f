"""Figures of a soak: memory, descriptors, store and logs of the cluster, as they begin, at most and at the end."""

import contextlib
from pathlib import Path

import psutil

MIB = 1 << 20
BOUNDS = {"memory MiB": 500.0, "descriptors": 1000.0, "store MiB": 150.0, "logs MiB": 150.0}
"""None of them depends on how long the soak lasts."""


def sample(process: psutil.Process, home: Path) -> dict[str, float]:
    """Of the cluster's process, which is API server, controllers, nodes, operator and Brain in one."""
    store = sum(file.stat().st_size for file in _files(home, "store.db*"))
    logs = sum(file.stat().st_size for file in [*_files(home, "**/*.log*"), *_files(home.parent, "*.log*")])
    return {
        "memory MiB": process.memory_info().rss / MIB,
        "descriptors": float(process.num_fds()),
        "store MiB": store / MIB,
        "logs MiB": logs / MIB,
    }


def _files(folder: Path, pattern: str) -> list[Path]:
    found = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if path.is_file():
                found.append(path)
    return found


class Figures:
    def __init__(self) -> None:
        self.samples: list[dict[str, float]] = []

    def add(self, taken: dict[str, float]) -> None:
        self.samples.append(taken)

    def now(self) -> str:
        return ", ".join(f"{name} {value:.0f}" for name, value in self.samples[-1].items()) if self.samples else ""

    def table(self) -> str:
        lines = [f"{'':14}{'first':>10}{'most':>10}{'last':>10}{'bound':>10}"]
        for name, bound in BOUNDS.items():
            values = [taken[name] for taken in self.samples]
            lines.append(f"{name:14}{values[0]:>10.0f}{max(values):>10.0f}{values[-1]:>10.0f}{bound:>10.0f}")
        return "\n".join(lines)

    def exceeded(self) -> list[str]:
        return [name for name, bound in BOUNDS.items() if max(taken[name] for taken in self.samples) > bound]
