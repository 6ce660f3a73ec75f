"""The page in a real Chromium, with real jobs: every view, live, by keyboard, light and dark, wide and narrow."""

import pytest

from tests.tier_web.accessibility import faults
from tests.tier_web.browser import DOWN, ENTER, RIGHT, Browser
from tests.tier_web.conftest import HOSTILE, LONG, Cluster, job

pytestmark = pytest.mark.web
KIND = "trainingjobs.paddlepaddle.org"
STEADY = f"#/job/{KIND}/default/steady"
SOON = 2.0  # seconds in which a change is seen


def names(page: Browser) -> list[str]:
    return page.text(".rows .job-link").splitlines()


def test_jobs_are_listed_with_state_size_and_reason(page: Browser) -> None:
    page.until(lambda: {"steady", "broken", "huge"} <= set(names(page)), "all jobs are listed")
    page.until_text("Failed", ".rows [data-key$='/broken']")
    page.until_text("Waiting", ".rows [data-key$='/huge']")
    page.until_text("Running", ".rows [data-key$='/steady']", patience=60)
    page.until_text("CPU", ".rows [data-key$='/huge'] .c-why")
    page.shoot("jobs")
    assert faults(page) == []


def test_the_code_is_gone_from_the_address_and_is_good_once(page: Browser, cluster: Cluster) -> None:
    assert "code" not in page.script("return location.href")
    used = cluster.login()
    page.open("about:blank")
    page.open(used)
    page.until_text("jobs", "#total")
    page.script("localStorage.clear()")
    page.open("about:blank")
    page.open(used)
    page.until_text("Log in", "h1")
    page.until_text("was used or is too old", ".error")
    assert faults(page) == []
    page.shoot("login")
    assert [one for one in page.complaints() if "401" not in one] == []
    page.open("about:blank")
    page.open(cluster.login())
    page.until_text("jobs", "#total")


def test_a_change_is_seen_within_two_seconds_without_reload(page: Browser, cluster: Cluster) -> None:
    page.script("window.notReloaded = true")
    cluster.submit(job("late", "sleep 600", least=40, most=40))
    page.until(lambda: "late" in names(page), "a new job", patience=SOON)
    cluster.delete("late")
    page.until(lambda: "late" not in names(page), "that it went", patience=SOON)
    assert page.script("return window.notReloaded")


def test_filter_and_sort(page: Browser) -> None:
    page.until(lambda: len(names(page)) >= 3, "all jobs are listed")
    page.type("#filter", "STEA")
    page.until(lambda: names(page) == ["steady"], "the one that matches")
    page.type("#filter", "no such thing")
    page.until_text("No job matches")
    page.type("#filter", " ")
    page.click("[data-chip=failed]")
    page.until(lambda: names(page) == ["broken"], "those that failed")
    page.click("[data-chip=all]")
    page.click(".head .c-name button")
    page.until(lambda: names(page) == sorted(names(page)) and len(names(page)) >= 3, "by name")
    page.click(".head .c-name button")
    page.until(lambda: names(page) == sorted(names(page), reverse=True), "by name, down")
    assert page.one(".head .c-name").get_attribute("aria-sort") == "descending"


def test_the_keyboard_is_enough(page: Browser) -> None:
    page.until(lambda: len(names(page)) >= 3, "all jobs are listed")
    page.script("document.querySelector('.rows .job-link').focus()")
    first = page.script("return document.activeElement.innerText")
    page.press(DOWN)
    page.until(lambda: page.script("return document.activeElement.innerText") not in (first, ""), "the next row")
    page.press(ENTER)
    page.until_text("What to do next")
    page.script("document.getElementById('tab-overview').focus()")
    page.press(RIGHT)
    page.until(lambda: page.script("return document.activeElement.id") == "tab-pods", "the next tab")


def test_a_job_shows_size_loss_pace_and_what_was_decided(page: Browser) -> None:
    page.go(STEADY)
    page.until_text("What to do next")
    page.until_text("→", ".decisions", patience=60)
    page.until(lambda: len(page.all(".chart .line")) >= 4, "its curves", patience=60)
    page.until(lambda: page.text(".facts").count("–") <= 2, "its figures")
    assert page.all(".chart .mark")
    page.script("document.querySelector('.chart .mark').focus()")
    page.until(lambda: page.all(".decisions li.on"), "the decision that was pointed at")
    page.shoot("job")
    assert faults(page) == []


def test_curves_grow_while_one_looks(page: Browser) -> None:
    page.go(STEADY)
    page.until_text("Samples per second")
    page.until(lambda: len(page.all(".chart .line")) >= 4, "its curves", patience=60)
    before = page.script("return document.querySelectorAll('.chart .line.c1')[0].getAttribute('d').length")
    page.until(
        lambda: page.script("return document.querySelectorAll('.chart .line.c1')[0].getAttribute('d').length") > before,
        "a further point",
    )


def test_the_root_cause_is_what_the_pod_said(page: Browser) -> None:
    page.go(f"#/job/{KIND}/default/broken")
    page.until_text("exit code 3", ".cause")
    page.until_text("no such batch", ".cause pre")
    page.until_text("Wrong", ".advice")
    page.shoot("failed-job")
    assert faults(page) == []


def test_logs_follow_and_are_text_whatever_is_in_them(page: Browser) -> None:
    page.go(STEADY)
    page.until_text("What to do next")
    page.click("#tab-logs")
    page.until(lambda: page.all("#pod option"), "its pods")
    page.script(
        "const pick = document.getElementById('pod');"
        "pick.value = [...pick.options].map((one) => one.value).find((one) => one.includes('trainer'));"
        "pick.dispatchEvent(new Event('change'))"
    )
    page.until_text("line 1", ".log")
    known = page.text(".log").count("line ")
    page.until(lambda: page.text(".log").count("line ") > known, "a further line", patience=5)
    shown = page.text(".log")
    assert HOSTILE.replace("\x1b[31m", "").replace("\x1b[0m", "") in shown
    assert page.all(".log img") == []
    assert page.script("return document.title") == "steady · EDL"
    assert len(shown) < LONG // 10
    page.until_text("are left out", ".tab-panel")
    page.type("#find", "line 2")
    page.until(lambda: "line 1\n" not in page.text(".log"), "only lines that match")
    page.shoot("logs")
    assert faults(page) == []


@pytest.mark.parametrize(
    ("tab", "words"), [("pods", "steady-trainer"), ("events", "Running"), ("manifest", "kind: TrainingJob")]
)
def test_every_tab_of_a_job(page: Browser, tab: str, words: str) -> None:
    page.go(STEADY)
    page.until_text("What to do next")
    page.click(f"#tab-{tab}")
    page.until_text(words, ".tab-panel")
    assert faults(page) == []


def test_the_cluster(page: Browser) -> None:
    page.go("#/cluster")
    page.until_text("2 nodes")
    page.until_text("Waiting: 1")
    page.until_text("huge", ".queue")
    page.until_text("default", ".shares")
    page.until(lambda: page.all(".stack"), "use over time")
    page.shoot("cluster")
    assert faults(page) == []


def test_what_if(page: Browser) -> None:
    page.go("#/what-if")
    page.until_text("huge", "table")
    page.until_text("And then")
    for policy in ("fulfillment", "goodput", "cfs"):
        page.script(
            "[...document.querySelectorAll('.chip')].find((one) => one.innerText === arguments[0]).click()", policy
        )
        page.until_text(policy, ".chip[aria-pressed=true]")
    page.shoot("what-if")
    assert faults(page) == []


@pytest.mark.parametrize("view", ["#/jobs", "#/cluster", "#/what-if", STEADY])
def test_dark_and_narrow(page: Browser, view: str) -> None:
    page.prefer("dark")
    page.resize(375, 812)
    page.go(view)
    page.until(lambda: page.script("return document.documentElement.dataset.theme") == "dark", "it is dark")
    page.until_text({"#/cluster": "2 nodes", "#/what-if": "would", STEADY: "What to do next"}.get(view, "steady"))
    page.until(lambda: faults(page) == [], f"no faults but {faults(page)}", patience=3)
    page.shoot(f"narrow-{view.rpartition('/')[2]}")


def test_what_was_chosen_by_hand_beats_what_the_system_prefers(page: Browser) -> None:
    page.click("#theme")
    assert page.script("return document.documentElement.dataset.theme") == "dark"
    page.shoot("jobs-dark")
    page.click("#theme")
    assert page.script("return document.documentElement.dataset.theme") == "light"


def test_a_job_that_is_not_there_is_said_so(page: Browser) -> None:
    page.go(f"#/job/{KIND}/default/%3Cb%3Enobody")
    page.until_text("There is no such job")
    assert page.all("main b") == []
    assert [one for one in page.complaints() if "404" not in one] == []


def test_actions_are_offered_to_a_session_that_may_act(page: Browser, cluster: Cluster) -> None:
    page.go(STEADY)
    page.until_text("What to do next")
    assert page.all(".actions") == []
    page.open("about:blank")
    page.open(cluster.login(actions=True))
    page.until_text("jobs", "#total")
    page.go(STEADY)
    page.one(".actions")
    page.type("#size", "2")
    page.click(".actions form button")
    page.until_text("size 2 is asked for", ".notices")
    page.until(lambda: cluster.get("steady")["spec"]["trainer"].get("replicas") == 2, "it was asked for")
    assert faults(page) == []
