"""Reads the CSV files of the published artifact strictly: whatever is wrong is refused with file, line and column."""

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.pollux.application import Application, Measured, ValidationRow

EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Application: epochs after which its jobs are done. The tables do not hold these."""
MAX_LOCAL_BATCH = {"yolov3": 8}
"""Applications whose local batch is bounded below the largest that was measured."""


class BadTableError(Exception):
    """A file cannot be used; the text says where and why."""


class Submission(NamedTuple):
    """One row of a workload: a job that is submitted."""

    load: str
    workload: int
    name: str
    time: int
    application: str
    num_replicas: int
    batch_size: int


class Row:
    """One line of a file, whose cells are read by type."""

    def __init__(self, path: Path, line: int, cells: Mapping[str, str]) -> None:
        self.path, self.line, self.cells = path, line, cells

    def bad(self, column: str, wants: str) -> BadTableError:
        return BadTableError(f"{self.path}:{self.line}: {column} {self.cells[column]!r}: wants {wants}")

    def text(self, column: str) -> str:
        if not self.cells[column]:
            raise self.bad(column, "a value")
        return self.cells[column]

    def whole(self, column: str, least: int = 0) -> int:
        try:
            value = int(self.cells[column])
        except ValueError:
            raise self.bad(column, "a whole number") from None
        if value < least:
            raise self.bad(column, f"at least {least}")
        return value

    def number(self, column: str, *, signed: bool = False) -> float:
        try:
            value = float(self.cells[column])
        except ValueError:
            raise self.bad(column, "a number") from None
        if not math.isfinite(value) or (value < 0 and not signed):
            raise self.bad(column, "a finite number" if signed else "a finite number that is not negative")
        return value


def rows_of(path: Path, columns: str) -> Iterator[Row]:
    """Rows of a file that has these columns, and perhaps others."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            if missing := [name for name in columns.split() if name not in header]:
                raise BadTableError(f"{path}:1: no column {', '.join(missing)}; wants {columns.replace(' ', ',')}")
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise BadTableError(f"{path}:{reader.line_num}: {len(cells)} values for {len(header)} columns")
                yield Row(path, reader.line_num, dict(zip(header, map(str.strip, cells), strict=True)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadTableError(f"{path}: {error}") from error


def read_workloads(path: Path, applications: Mapping[str, Application]) -> list[Submission]:
    found, names = [], set()
    for row in rows_of(path, "load workload name time application num_replicas batch_size"):
        one = Submission(
            load=row.text("load"),
            workload=row.whole("workload"),
            name=row.text("name"),
            time=row.whole("time"),
            application=row.text("application"),
            num_replicas=row.whole("num_replicas", 1),
            batch_size=row.whole("batch_size", 1),
        )
        _check(row, one, applications)
        if (one.load, one.workload, one.name) in names:
            raise row.bad("name", "a name of its own within the workload")
        names.add((one.load, one.workload, one.name))
        found.append(one)
    return found


def _check(row: Row, one: Submission, applications: Mapping[str, Application]) -> None:
    application = applications.get(one.application)
    if application is None:
        raise row.bad("application", f"one of the tables': {', '.join(sorted(applications))}")
    if not application.init_batch_size <= one.batch_size <= application.max_batch_size:
        raise row.bad("batch_size", f"{application.init_batch_size} to {application.max_batch_size}")
    if one.num_replicas > 64:
        raise row.bad("num_replicas", "at most 64, the GPUs of the published cluster")


def read_applications(folder: Path) -> dict[str, Application]:
    """From the three tables beside the workloads."""
    placements: dict[str, list[Measured]] = {}
    for row in rows_of(folder / "pollux_placements.csv", "application placement local_bsz step_time sync_time"):
        shape = row.text("placement")
        if not shape.isdigit() or "0" in shape:
            raise row.bad("placement", 'digits from 1 to 9, such as "44" for two nodes of 4 GPUs')
        _measured(placements, row, tuple(map(int, shape)), len(shape), sum(map(int, shape)))
    scalability: dict[str, list[Measured]] = {}
    columns = "application num_nodes num_replicas local_bsz step_time sync_time"
    for row in rows_of(folder / "pollux_scalability.csv", columns):
        _measured(scalability, row, (), row.whole("num_nodes", 1), row.whole("num_replicas", 1))
    validation: dict[str, dict[int, list[ValidationRow]]] = {}
    columns = "application batch_size progress iteration grad_sqr grad_var"
    for row in rows_of(folder / "pollux_validation.csv", columns):
        by_batch = validation.setdefault(row.text("application"), {})
        by_batch.setdefault(row.whole("batch_size", 1), []).append(_validation(row))
    if missing := sorted(set(EPOCHS) - (set(placements) & set(scalability) & set(validation))):
        raise BadTableError(f"{folder}: the tables have no rows of {', '.join(missing)}")
    return {
        name: Application(
            name,
            placements[name],
            scalability[name],
            dict(sorted(validation[name].items())),
            epochs=epochs,
            max_local_bsz=MAX_LOCAL_BATCH.get(name),
        )
        for name, epochs in EPOCHS.items()
    }


def _measured(found: dict[str, list[Measured]], row: Row, shape: tuple[int, ...], nodes: int, replicas: int) -> None:
    one = Measured(shape, nodes, replicas, row.whole("local_bsz", 1), row.number("step_time"), row.number("sync_time"))
    found.setdefault(row.text("application"), []).append(one)


def _validation(row: Row) -> ValidationRow:
    read: Callable[[str], float] = row.number
    return ValidationRow(read("progress"), read("iteration"), read("grad_sqr"), read("grad_var"))


def read_published(path: Path) -> dict[tuple[str, str, int], dict[str, float]]:
    """Policy, load and workload: the published completion time of every job."""
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in rows_of(path, "variant workload name jct_s"):
        policy, dash, load = row.text("variant").rpartition("-")
        if not dash:
            raise row.bad("variant", "a policy and a load, such as pollux-1.0")
        times = found.setdefault((policy, load, row.whole("workload")), {})
        times[row.text("name")] = row.number("jct_s")
    return found
