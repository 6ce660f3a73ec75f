"""No test is lost or run twice by the order of tests, and what it names is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.order import LONG, dealt

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("long", [0, 1, 3, 7, 40])
@pytest.mark.parametrize("short", [0, 1, 5, 100])
@pytest.mark.parametrize("workers", [1, 4, 5])
def test_every_test_is_dealt_once(long: int, short: int, workers: int) -> None:
    items = [("long", number) for number in range(long)], [("short", number) for number in range(short)]
    assert sorted(dealt(*items, workers)) == sorted([*items[0], *items[1]])


def test_every_worker_begins_with_its_share_of_the_long_ones() -> None:
    order = dealt([f"long {number}" for number in range(6)], [f"short {number}" for number in range(6)], 3)
    shares = [order[start : start + 4] for start in (0, 4, 8)]
    assert shares == [
        ["long 0", "long 3", "short 0", "short 1"],
        ["long 1", "long 4", "short 2", "short 3"],
        ["long 2", "long 5", "short 4", "short 5"],
    ]


RECORDED = """
import os, pytest
@pytest.mark.parametrize("number", range(8))
def test_it(number):
    with open(os.environ["ORDER"], "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], __name__, file=file)
"""


def test_workers_of_xdist_keep_to_it(tmp_path: Path) -> None:
    for name in ("tests/api/test_short.py", "tests/stories/test_long.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(RECORDED)
    order = tmp_path / "order"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"ORDER": str(order), "PYTHONPATH": str(ROOT)}
    words = ["-n", "2", "--dist", "worksteal", "-p", "tests.order", "-p", "no:cacheprovider", "--rootdir", ".", "tests"]
    subprocess.run([sys.executable, "-m", "pytest", *words], cwd=tmp_path, env=environment, check=True)
    ran = [line.split() for line in order.read_text().splitlines()]
    firsts = {worker: [test for by, test in ran if by == worker][:2] for worker in ("gw0", "gw1")}
    assert firsts == {"gw0": ["test_long", "test_long"], "gw1": ["test_long", "test_long"]}
    assert len(ran) == 16


@pytest.mark.parametrize("start", LONG)
def test_what_is_long_exists(start: str) -> None:
    file, _, name = start.partition("::")
    assert (ROOT / file).exists()
    assert f"def {name}(" in (ROOT / file).read_text() if name else True
