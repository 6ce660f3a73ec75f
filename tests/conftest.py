"""Rules that every test shares: a skipped test fails the gate unless it said beforehand why it may skip."""

import gc
import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

gc.disable()  # collecting the tests makes a great many objects and no garbage; a quarter of its time would go there

# How fast a busy machine makes examples says nothing about the product.
# The same examples in every run, so that a change alone makes a test fail; `make fuzz` looks for new ones.
settings.register_profile("edl", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("fuzz", settings.get_profile("edl"), derandomize=False, print_blob=True)
settings.load_profile("edl")

# One of each cluster per session, whichever tests ask for it.
pytest_plugins = ["tests.order", "tests.tier_kube.workers", "tests.tier_kube.clusters", "tests.tier_kube.installed"]

_skipped: list[str] = []


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands set logging up for their process. Here that would outlast the test, with a stream that is closed then,
    and whatever a later test logs would be an error on its stderr."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
    root.setLevel(level)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and "may_skip" not in report.keywords:
        _skipped.append(report.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for nodeid in _skipped:
        terminalreporter.write_line(f"SKIPPED without a may_skip mark, which fails the gate: {nodeid}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
