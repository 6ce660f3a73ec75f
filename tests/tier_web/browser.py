"""A real Chromium, driven by its own driver: pages, what they asked for over the network, and what they complained of.

Debian's packages `chromium` and `chromium-driver`; nothing is fetched by the test itself.
"""

import base64
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

SHOTS = Path(__file__).parents[2] / "build" / "web"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--lang=en-GB",
)
PATIENCE = 30.0
ENTER, RIGHT, DOWN = "\ue007", "\ue014", "\ue015"  # keys, as WebDriver names them
T = TypeVar("T")


class Browser:
    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.origin = ""

    def open(self, url: str) -> None:
        parts = urlsplit(url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.driver.get(url)

    def go(self, fragment: str) -> None:
        """To another view of the page that is open."""
        self.script("location.hash = arguments[0]", fragment)

    def script(self, code: str, *arguments: object) -> Any:
        return self.driver.execute_script(code, *arguments)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        return self.until(lambda: next(iter(self.all(selector)), None), selector)

    def text(self, selector: str = "body") -> str:
        found = self.script(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join('\\n')", selector
        )
        return str(found)

    def click(self, selector: str) -> None:
        self.one(selector)
        self.script("document.querySelector(arguments[0]).click()", selector)

    def press(self, key: str) -> None:
        """To whatever has the focus, as a person would."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(key).perform()

    def type(self, selector: str, words: str) -> None:
        field = self.one(selector)
        field.clear()
        field.send_keys(words)

    def until(self, condition: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if found := condition():
                return found
            time.sleep(0.02)
        raise AssertionError(f"never came true: {what}\n{self.text()[:2000]}\n{self.complaints()}")

    def until_text(self, words: str, selector: str = "body", patience: float = PATIENCE) -> None:
        self.until(lambda: words in self.text(selector), f"{words!r} in {selector}", patience)

    def resize(self, width: int, height: int) -> None:
        """Of the page itself: a window has a least width of its own."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, scheme: str) -> None:
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def shoot(self, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        (SHOTS / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))

    # What it did beside showing.

    def complaints(self) -> list[str]:
        """What the console was told since the last time, from errors to warnings."""
        logged: list[dict[str, Any]] = self.driver.get_log("browser")
        return [one["message"] for one in logged if one["level"] in ("SEVERE", "WARNING")]

    def asked(self) -> list[str]:
        """Every address that the page has asked for since the last time."""
        logged: list[dict[str, Any]] = self.driver.get_log("performance")
        messages = [json.loads(one["message"])["message"] for one in logged]
        return [
            str(one["params"]["request"]["url"]) for one in messages if one["method"] == "Network.requestWillBeSent"
        ]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    from selenium import webdriver  # only this tier has it
    from selenium.webdriver.chrome.service import Service

    home = tempfile.mkdtemp(prefix="edl-chromium-")
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*FLAGS, f"--user-data-dir={home}", "--window-size=1400,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        driver.set_script_timeout(PATIENCE)
        yield Browser(driver)
    finally:
        driver.quit()
        shutil.rmtree(home, ignore_errors=True)
