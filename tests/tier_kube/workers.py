"""Distribution of the tier over workers: tests that use one cluster are one group, and one process runs a group.

Most of a test's time is waiting, so several groups run at once, each on clusters of its worker's own. Without workers
(`pytest -n 0`) everything runs in one process, on one cluster of each sort, in the order of the files.

The names of groups are xdist's own marks. It would send them in the names of tests, where this pytest has no place for
them any more: so workers write them down, and whoever started the workers reads that.
"""

import json
import signal
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has no types

from tests.tier_kube.cluster.cluster import clear_leftovers, clusters

# The longest first, so that the last ones to end are short; what looks back at all others comes last.
GROUPS = ("pods", "cluster", "stories", "ha", "api", "test_on_kubernetes", "conformance", "teardown", "others", "last")
_OF_FIXTURES = {
    "pods": {"installed"},
    "cluster": {"own_cluster", "cluster", "image", "namespace"},
    "api": {"api", "own_api", "api_namespace"},
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: looks back at what the other tests did to the clusters of the session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("kube") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_default(item)))
    if shared(config):
        items.sort(key=lambda item: _turn(group(item)))
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)  # stable: the others stay as they are


def _default(item: pytest.Item) -> str:
    if item.get_closest_marker("last"):
        return "last"
    used = set(getattr(item, "fixturenames", ()))
    return next((name for name, fixtures in _OF_FIXTURES.items() if used & fixtures), item.path.stem)


def group(item: pytest.Item) -> str:
    """Of tests of this tier; empty for others."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""


def _turn(name: str) -> int:
    return GROUPS.index(name if name in GROUPS else "others")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Before xdist says that this worker has its tests."""
    if directory := shared(session.config):
        reported = json.dumps({item.nodeid: group(item) for item in session.items})
        (directory / f"groups-{_me(session.config)}").write_text(reported)


class Groups(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """Whole groups, in the order of their tests."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._config = config
        self._groups: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:
            self._groups = json.loads((_directory(self._config) / "groups-gw0").read_text())
        return self._groups[nodeid] or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups | None:
    return Groups(config, log) if _has_workers(config) else None


# What workers tell each other and whoever started them, by files that all see.


def _directory(config: pytest.Config) -> Path:
    """Of the whole session; workers have theirs in it."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]  # the fixture comes too late
    return factory.getbasetemp()


def shared(config: pytest.Config) -> Path | None:
    """A directory of all workers of this session; None where one process runs all tests, or starts the workers."""
    in_groups = getattr(config.option, "loadgroup", False) and hasattr(config, "workerinput")
    return _directory(config).parent if in_groups else None


def _me(config: pytest.Config) -> str:
    return str(config.workerinput["workerid"])  # type: ignore[attr-defined]  # xdist's, in workers


def until_others_end(config: pytest.Config, *, within: float) -> None:
    """Returns when every other worker has run its tests and stopped its clusters."""
    if (directory := shared(config)) is None:
        return
    others = config.workerinput["workercount"] - 1  # type: ignore[attr-defined]  # as above
    deadline = time.monotonic() + within
    while len(ended := sorted(path.name for path in directory.glob("ended-*"))) < others:
        assert time.monotonic() < deadline, f"only {ended} of {others} other workers ended within {within:.0f} s"
        time.sleep(0.2)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """A worker says that it has ended. Whoever started the workers clears away what those left that had to be killed:
    they are given ten seconds to end in when the session is interrupted."""
    yield
    if directory := shared(session.config):
        (directory / f"ended-{_me(session.config)}").touch()
    elif _has_workers(session.config) and any(clusters().glob("*")):
        clear_leftovers()


def pytest_sessionstart(session: pytest.Session) -> None:
    if _has_workers(session.config):
        signal.signal(signal.SIGTERM, interrupt)


def _has_workers(config: pytest.Config) -> bool:
    return getattr(config.option, "dist", "no") == "loadgroup" and not hasattr(config, "workerinput")


def interrupt(number: int, frame: FrameType | None) -> None:
    """End as after Ctrl-C, which runs the finalizers."""
    raise KeyboardInterrupt(f"signal {number}")
