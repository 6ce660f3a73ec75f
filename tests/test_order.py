"""No test is lost or run twice by the order of tests, and what it names is there."""

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


@pytest.mark.parametrize("start", LONG)
def test_what_is_long_exists(start: str) -> None:
    file, _, name = start.partition("::")
    assert (ROOT / file).exists()
    assert f"def {name}(" in (ROOT / file).read_text() if name else True
