"""How the tier is shared out: tests that use one cluster are one group, and a group is run by one process (a worker).

Most of a test's time is waiting, so several groups run at once, each on clusters of its worker's own. Without workers
(`pytest -n 0`) everything runs in one process, on one cluster of each sort, in the order of the files.
"""

import signal
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import pytest

from tests.kube.cluster.cluster import clear_leftovers, clusters

# The longest first, so that the last ones to end are short; what looks back at all others comes last.
GROUPS = ("pods", "api", "stories", "ha", "cluster", "conformance", "others", "last")
_OF_FIXTURES = {
    "pods": {"installed"},
    "cluster": {"own_cluster", "cluster", "image", "namespace"},
    "api": {"api", "api_namespace"},
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: looks back at what the other tests did to the clusters of the session")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("kube") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    if getattr(config.option, "dist", "no") == "loadgroup":
        items.sort(key=_turn)
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)  # stable: the others stay as they are


def _group(item: pytest.Item) -> str:
    if item.get_closest_marker("last"):
        return "last"
    used = set(getattr(item, "fixturenames", ()))
    return next((name for name, fixtures in _OF_FIXTURES.items() if used & fixtures), item.path.stem)


def _turn(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    name = mark.args[0] if mark else ""
    return GROUPS.index(name) if name in GROUPS else GROUPS.index("others")


# What workers tell each other, by files that all of them see.


def shared(config: pytest.Config) -> Path | None:
    """A directory of all workers of this session; None where one process runs all tests."""
    return Path(config.option.basetemp).parent if hasattr(config, "workerinput") else None


def until_others_end(config: pytest.Config, *, within: float) -> None:
    """Returns when every other worker has run its tests and stopped its clusters."""
    if (directory := shared(config)) is None:
        return
    others = config.workerinput["workercount"] - 1  # type: ignore[attr-defined]  # xdist's, in workers
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
        (directory / f"ended-{session.config.workerinput['workerid']}").touch()  # type: ignore[attr-defined]
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
