"""In a real Chromium: a viewer with few rights, a session that ends, an API server that goes away and comes back."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from edl.web.access.sessions import Grant
from tests.tier_web.accessibility import faults
from tests.tier_web.browser import Browser
from tests.tier_web.conftest import in_thread
from tests.web.world import KIND, World, everything, only_in, sized, world

pytestmark = pytest.mark.web
MARKUP = '<b>bold</b> & "quoted" \'</script><img src=x onerror=document.title=1>'


class Scene:
    def __init__(self, there: World, loop: asyncio.AbstractEventLoop) -> None:
        self.there, self._loop = there, loop

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30.0)

    def login(self, user: str) -> str:
        return f"{self.there.url}/#code={self.there.sessions.code(Grant(user))}"


@pytest.fixture
def scene() -> Iterator[Scene]:
    async def main(stop: asyncio.Event, ready: "asyncio.Future[Any]") -> None:
        async with world() as there:
            there.api.users |= {"rita": only_in("red"), "ada": everything}
            for name in ("red", "blue"):
                await there.namespace(name)
            await there.node("n-0")
            await there.job("mine", "red", **sized(2, reason=MARKUP))
            await there.job("theirs", "blue")
            await there.shown("mine", "theirs")
            ready.set_result(Scene(there, asyncio.get_running_loop()))
            await stop.wait()

    with in_thread(main) as made:
        yield made


@pytest.fixture
def page(_chromium: Browser) -> Iterator[Browser]:
    _chromium.resize(1400, 900)
    _chromium.prefer("light")
    _chromium.complaints()
    yield _chromium
    with contextlib.suppress(Exception):
        _chromium.open("about:blank")


def test_rights_in_one_namespace_show_that_one_alone(page: Browser, scene: Scene) -> None:
    page.open(scene.login("rita"))
    page.until_text("1 job", "#total")
    assert "theirs" not in page.text()
    assert "blue" not in page.text()
    assert page.text("#nav").split() == ["Jobs"]
    page.until_text(MARKUP, ".c-why")
    assert page.all("main b, main img") == []
    page.go("#/cluster")
    page.until_text("You may not see this")
    page.go(f"#/job/{KIND}/blue/theirs")
    page.until_text("There is no such job, or you may not see it")
    page.go(f"#/job/{KIND}/red/mine")
    page.until_text(MARKUP, ".reason")
    assert faults(page) == []


def test_a_session_that_has_ended_asks_to_log_in_again(page: Browser, scene: Scene) -> None:
    page.open(scene.login("ada"))
    page.until_text("2 jobs", "#total")
    page.script("localStorage.setItem('edl-session', 'edl-session.forged')")
    page.go("#/cluster")
    page.until_text("Log in", "h1")
    page.until_text("log in again", ".error")
    page.type("#token", "nobody")
    page.click(".login button")
    page.until_text("not valid", ".error")
    page.type("#token", "ada")
    page.click(".login button")
    page.until_text("Shares by namespace")
    assert faults(page) == []


def test_the_api_server_goes_away_and_comes_back(page: Browser, scene: Scene) -> None:
    page.open(scene.login("ada"))
    page.until_text("Live", "#liveness")
    scene.there.api.away = True
    page.until_text("Not live", ".banner")
    assert "theirs" in page.text(), "what was known is still shown"
    page.shoot("not-live")
    assert faults(page) == []
    scene.there.api.away = False
    page.until(lambda: not page.all(".banner"), "it is live again")
    scene.run(scene.there.job("late", "red"))
    page.until(lambda: "late" in page.text(".rows"), "and goes on")
