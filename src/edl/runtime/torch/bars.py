"""Bars that a script redraws in place (tqdm), made into lines of a log now and then.

A log is kept by lines, and a bar has no end of line until it is full: whoever reads the log would see it when the
training is over. Nothing of what was written is changed or left out. Needs the standard library alone.
"""

import re

EVERY = 1.0
"""Seconds between two lines of a bar that moves."""
_LONGEST = 1000
_DRAWN = re.compile(rb"\r[^\r\n]*\d/\d+ \[[^\r\n]*\] *\Z")


class BarLines:
    """Of one stream. Time is an argument."""

    def __init__(self, every: float = EVERY) -> None:
        self._every, self._last = every, float("-inf")

    def ending(self, block: bytes, now: float) -> bytes:
        """What ends the line that this block leaves unended; nothing if it is no bar, or too soon for another."""
        if now - self._last < self._every or not _DRAWN.search(block[-_LONGEST:]):
            return b""
        self._last = now
        return b"\n"
