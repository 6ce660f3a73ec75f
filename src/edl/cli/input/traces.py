"""Reads traces for `edl simulate`: CSV of jobs, and of nodes that come and go. A refusal names the line."""

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import structs

from edl.cli.errors import CommandError
from edl.scheduler.simulation.trace import ForeignLoad, NodeChange, TraceJob

MOST_ROWS = 200_000
REQUIRED = ("submit_s", "duration_s", "num_gpus")
COLUMNS = {
    "submit_s": "when it is submitted, in seconds; the first of all counts as 0",
    "duration_s": "how long it takes at num_gpus GPUs",
    "num_gpus": "GPUs, one per instance",
    "name": "default: job- and the number of its line",
    "min": "fewest instances (default 1)",
    "max": "most instances (default num_gpus)",
    "scaling": "speed is this power of the instances, above 0 and up to 1 (default 0.8)",
    "curve": "instead of scaling: speed by instances, such as 1:100 2:190 4:350; lines between, constant beyond",
    "pause_s": "what a change of size costs it (default 30)",
    "priority": "as edl.dev/priority, a number (default 1000)",
    "vc": "its namespace (default: default)",
}
FOREIGN_COLUMNS = ("t_s", "gpus")
NODE_COLUMNS = ("t_s", "event", "nodes")


class Row:
    """A line whose cells are read by type."""

    def __init__(self, path: Path, line: int, cells: Mapping[str, str]) -> None:
        self.path, self.line, self.cells = path, line, cells

    def refuse(self, column: str, wants: str) -> CommandError:
        return CommandError(f"{self.path}:{self.line}: {column} {self.cells.get(column, '')!r}: wants {wants}")

    def number(self, column: str, default: float | None = None, *, least: float = 0.0) -> float:
        text = self.cells.get(column, "")
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            raise self.refuse(column, "a number") from None
        if not math.isfinite(value) or value < least:
            raise self.refuse(column, f"a finite number, {least:g} or more")
        return value

    def whole(self, column: str, default: int | None = None, *, least: int = 1) -> int:
        value = self.number(column, default, least=least)
        if value != int(value):
            raise self.refuse(column, "a whole number")
        return int(value)


def read_rows(path: Path, required: tuple[str, ...], known: tuple[str, ...]) -> Iterator[Row]:
    """Commas, semicolons or tabs, as the header has them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            head = file.readline()
            delimiter = max(",;\t", key=head.count)
            header = [name.strip() for name in next(csv.reader([head], delimiter=delimiter), [])]
            _check_header(path, header, required, known)
            for line, cells in enumerate(csv.reader(file, delimiter=delimiter), start=2):
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise CommandError(f"{path}:{line}: {len(cells)} values for {len(header)} columns")
                if line > MOST_ROWS + 1:
                    raise CommandError(f"{path}:{line}: more than {MOST_ROWS} rows; simulate a part of them")
                yield Row(path, line, dict(zip(header, map(str.strip, cells), strict=True)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CommandError(f"{path}: {error}") from error


def _check_header(path: Path, header: list[str], required: tuple[str, ...], known: tuple[str, ...]) -> None:
    if missing := [name for name in required if name not in header]:
        raise CommandError(f"{path}:1: no column {', '.join(missing)}; known columns: {', '.join(known)}")
    if strange := [name for name in header if name not in known]:
        raise CommandError(f"{path}:1: unknown column {strange[0]!r}; known columns: {', '.join(known)}")
    if len(set(header)) != len(header):
        raise CommandError(f"{path}:1: a column is there twice")


def read_jobs(path: Path, capacity: int) -> tuple[TraceJob, ...]:
    """In any order; times count from the first submission. `capacity`: GPUs of the cluster."""
    jobs: list[TraceJob] = []
    names: set[str] = set()
    for row in read_rows(path, REQUIRED, tuple(COLUMNS)):
        job = _job(row)
        if job.min > capacity:
            raise row.refuse("min" if row.cells.get("min") else "num_gpus", f"at most {capacity}, what the cluster has")
        if job.name in names:
            raise row.refuse("name", "a name of its own")
        names.add(job.name)
        jobs.append(job)
    if not jobs:
        raise CommandError(f"{path}: no jobs")
    first = min(job.submit for job in jobs)
    return tuple(structs.replace(job, submit=job.submit - first) for job in jobs)


def _job(row: Row) -> TraceJob:
    size = row.whole("num_gpus")
    least = row.whole("min", 1)
    most = row.whole("max", max(size, least))
    if least > most:
        raise row.refuse("min", f"at most its maximum, {most}")
    scaling = row.number("scaling", 0.8)
    if not 0 < scaling <= 1:
        raise row.refuse("scaling", "a number above 0 and up to 1")
    return TraceJob(
        name=row.cells.get("name") or f"job-{row.line}",
        submit=row.number("submit_s"),
        duration=row.number("duration_s"),
        size=size,
        min=least,
        max=most,
        scaling=scaling,
        curve=_curve(row),
        pause=row.number("pause_s", 30.0),
        priority=row.whole("priority", 1000),
        namespace=row.cells.get("vc") or "default",
    )


def _curve(row: Row) -> tuple[tuple[int, float], ...]:
    """Pairs of instances and speed, in any order."""
    found: dict[int, float] = {}
    for pair in row.cells.get("curve", "").split():
        size, _, speed = pair.partition(":")
        try:
            found[int(size)] = float(speed)
        except ValueError:
            raise row.refuse("curve", "pairs of instances and speed, such as 1:100 2:190") from None
    if any(size < 1 or not 0 < speed < math.inf for size, speed in found.items()):
        raise row.refuse("curve", "instances from 1 and speeds above 0")
    return tuple(sorted(found.items()))


def read_foreign(path: Path) -> tuple[ForeignLoad, ...]:
    """GPUs that pods of others want, from each time on."""
    rows = read_rows(path, FOREIGN_COLUMNS, FOREIGN_COLUMNS)
    return tuple(ForeignLoad(row.number("t_s"), row.whole("gpus", least=0)) for row in rows)


def read_node_changes(path: Path, regime: str | None) -> tuple[NodeChange, ...]:
    """Events `add`, `remove` and `end`; nodes by name, blanks between them."""
    found: list[NodeChange] = []
    regimes: set[str] = set()
    for row in read_rows(path, NODE_COLUMNS, ("regime", *NODE_COLUMNS)):
        regimes.add(row.cells.get("regime", ""))
        if regime is not None and row.cells.get("regime", "") != regime:
            continue
        event = row.cells["event"]
        if event not in ("add", "remove", "end"):
            raise row.refuse("event", "add, remove or end")
        if event != "end":
            found.append(NodeChange(row.number("t_s"), tuple(row.cells["nodes"].split()), event == "add"))
    if regime is None and len(regimes) > 1:
        raise CommandError(f"{path}: has several regimes; choose one with --regime {'|'.join(sorted(regimes))}")
    if regime is not None and regime not in regimes:
        raise CommandError(f"--regime {regime}: {path} has {', '.join(sorted(regimes)) or 'none'}")
    return tuple(found)
