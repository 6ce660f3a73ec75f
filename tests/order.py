"""The order in which workers run the default tier: what takes long comes first.

Most of a long test is waiting. Begun last, it is all that is left: one worker waits for it, the others have ended, and
the processors are idle. Begun first, it waits beside the linters, and what is left in the end are thousands of short
tests, which workers take from each other.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

# Folders, files and tests with cases of more than five seconds on an idle machine; `--durations=50` names them.
LONG = (
    "tests/stories/",
    "tests/demo/test_demo.py",
    "tests/docs/test_commands.py::test_commands_run",
    "tests/upgrade/",
    "tests/runtime/test_faults.py",
    "tests/runtime/easydl_trainer/test_loop.py",
    "tests/runtime/test_carry.py",
    "tests/embedded/server/test_durability.py",
    "tests/operator/test_life.py",
    "tests/operator/test_restored_state.py",
    "tests/operator/job_service/test_call_limits.py",
    "tests/cli/test_following.py",
    "tests/cli/test_run.py",
    "tests/kube/test_paused_leader.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist does not tell its workers how it will distribute their tests."""
    node.workerinput["dealt"] = node.config.option.dist == "worksteal"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of xdist's ways only `worksteal` deals the tests out beforehand."""
    mine: dict[str, Any] = getattr(config, "workerinput", {})
    if not mine.get("dealt"):
        return
    long = sorted((item for item in items if item.nodeid.startswith(LONG)), key=_turn)
    short = [item for item in items if not item.nodeid.startswith(LONG)]
    items[:] = dealt(long, short, mine["workercount"])


def _turn(item: pytest.Item) -> int:
    return next(number for number, start in enumerate(LONG) if item.nodeid.startswith(start))


def dealt(long: Sequence[T], short: Sequence[T], workers: int) -> list[T]:
    """So that each worker, which is given as many tests as any other, in this order, has its share of the long ones
    and begins with them. Whoever has nothing left takes from the end of another's share."""
    order: list[T] = []
    rest = iter(short)
    left = len(long) + len(short)
    for worker in range(workers):
        share = left // (workers - worker)
        left -= share
        mine = long[worker::workers]
        order += [*mine, *islice(rest, max(0, share - len(mine)))]
    return [*order, *rest]
