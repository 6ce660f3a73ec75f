"""Repeats a tier, or single tests, and counts failures per test.

Counts add up over several starts (`build/flakes/counts.json`, by commit, tier and load), so that a long series can be
done in parts. A burning process keeps one core busy for as long as the series lasts.

    python -m tests.flakes --tier default --runs 10 --burn 2
    python -m tests.flakes --runs 50 --burn 2 tests/stories/test_kills.py::test_killed_in_the_middle_of_anything
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PLACE = Path("build/flakes")
TARGETS = {
    "default": "unit",
    "kube": "test-kube",
    "frameworks": "test-frameworks",
    "dist": "test-dist",
    "web": "test-web",
}
BURN = "import os\nwhile os.getppid() == {parent}: sum(range(100_000))"


def main() -> int:
    options = _options()
    PLACE.mkdir(parents=True, exist_ok=True)
    failed = False
    with _burning(options.burn):
        for run in range(1, options.runs + 1):
            report = (PLACE / f"{options.tier}-{os.getpid()}-{run}.xml").absolute()
            began = time.monotonic()
            ended = _run(options.tier, options.tests, report)
            counted = _read(report)
            counted["broken"] += ended not in (0, 1) and not counted["failures"]
            failed |= bool(ended)
            _add(f"{_commit()} {options.tier} burn={options.burn}{_named(options.tests)}", counted)
            print(f"run {run} of {options.runs}: {_words(counted)} in {time.monotonic() - began:.0f} s", flush=True)
    _print_counts()
    return int(failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.flakes", description=__doc__.splitlines()[0])
    parser.add_argument("--tier", choices=tuple(TARGETS), default="default")
    parser.add_argument("--runs", type=int, default=10, metavar="N")
    parser.add_argument("--burn", type=int, default=0, metavar="N", help="processes that burn the processor meanwhile")
    parser.add_argument("tests", nargs="*", help="single tests instead of the whole tier")
    return parser.parse_args()


@contextlib.contextmanager
def _burning(count: int) -> Iterator[None]:
    command = [sys.executable, "-c", BURN.format(parent=os.getpid())]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _run(tier: str, tests: list[str], report: Path) -> int:
    """The tier by its make target, so that the series runs what the gate runs."""
    if tests:
        command = [sys.executable, "-m", "pytest", "-n", "0", *tests]
    else:
        command = ["make", "--no-print-directory", TARGETS[tier]]
    log = report.with_suffix(".log")
    with log.open("w") as output:
        environment = {**os.environ, "PYTEST_ADDOPTS": f"--junit-xml={report}"}
        return subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False).returncode


def _read(report: Path) -> Counter[str]:
    """How many tests ran, and a count for each that failed. A run without a report counts as broken."""
    counted: Counter[str] = Counter()
    if not report.exists():
        counted["broken"] = 1
        return counted
    for case in ET.parse(report).getroot().iter("testcase"):
        counted["tests"] += 1
        if case.find("failure") is not None or case.find("error") is not None:
            counted["failures"] += 1
            counted[f"{case.get('classname')}::{case.get('name')}"] += 1
    counted["runs"] = 1
    return counted


def _add(series: str, counted: Counter[str]) -> None:
    """Into the counts of all starts; replaced in one step, so that Ctrl-C leaves a file that can be read."""
    counts = _counts()
    counts[series] = Counter(counts.get(series, {})) + counted
    new = PLACE / "counts.new"
    new.write_text(json.dumps(counts, indent=1))
    new.replace(PLACE / "counts.json")


def _counts() -> dict[str, Any]:
    path = PLACE / "counts.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _print_counts() -> None:
    for series, counted in _counts().items():
        print(f"{series}: {counted.get('runs', 0)} runs, {_words(Counter(counted))}")
        for test, count in sorted(counted.items(), key=lambda item: -item[1]):
            if "::" in test:
                print(f"  {count:4d} {test}")


def _words(counted: Counter[str]) -> str:
    broken = f", {counted['broken']} broken" if counted["broken"] else ""
    return f"{counted['tests']} tests, {counted['failures']} failures{broken}"


def _named(tests: list[str]) -> str:
    return f" {' '.join(tests)}" if tests else ""


def _commit() -> str:
    answer = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
