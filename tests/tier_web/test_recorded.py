"""In a real Chromium: a simulated week, in the views that a real cluster has."""

from collections.abc import Iterator

import pytest

from edl.cli.output.recording import KIND_NAME
from tests.tier_web.accessibility import faults
from tests.tier_web.browser import Browser
from tests.web.recorded_page import served_recording

pytestmark = pytest.mark.web


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served_recording(tmp_path_factory.mktemp("recorded")) as found:
        yield found


@pytest.fixture
def page(_chromium: Browser, address: str) -> Browser:
    _chromium.resize(1400, 900)
    _chromium.prefer("light")
    _chromium.asked()
    _chromium.complaints()
    _chromium.open(address)
    return _chromium


def test_a_simulated_week_in_the_same_page(page: Browser) -> None:
    page.until_text("40 jobs", "#total")
    page.until_text("Recorded", "#liveness")
    assert page.text("#nav").split() == ["Jobs", "Cluster"]
    assert faults(page) == []
    page.shoot("recorded-jobs")

    page.go("#/cluster")
    page.until_text("Mean shares by namespace")
    page.until_text("Waited longest")
    page.until(lambda: page.all(".stack"), "use over time")
    assert page.text("main").count("waited") > 2
    assert faults(page) == []
    page.shoot("recorded-cluster")

    name = page.text(".queue a").splitlines()[0]
    page.go(f"#/job/{KIND_NAME}/default/{name}")
    page.until_text("Where its time went")
    page.until_text("waiting", ".tab-panel")
    page.until_text("→", ".decisions")
    page.until(lambda: len(page.all(".chart .line")) >= 2, "size against target")
    assert page.all(".chart .mark")
    assert faults(page) == []
    page.shoot("recorded-job")

    assert [one for one in page.asked() if not one.startswith((page.origin, "data:", "about:"))] == []
    assert page.complaints() == []
