"""Checks of a page as it stands: names and roles for readers of the screen, contrast, and room on a narrow screen.

Written for this page rather than taken from a library: each check is one that it once failed, or could.
"""

from pathlib import Path

from tests.tier_web.browser import Browser

_CHECKS = Path(__file__).with_suffix(".js").read_text()


def faults(browser: Browser) -> list[str]:
    found, looked = browser.script(_CHECKS)
    assert looked > 5, "there is text to look at"
    return [str(one) for one in found]
