"""What a process does when it is asked to go: once, however often it is asked.

A handler may run in the middle of another one. If both wait for a lock of Python's, as `Event.set()` does, the second
one waits for the first for ever, and with it every thread that waits for the event.
"""

import signal
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], None]


def once(act: Callable[[], None]) -> Handler:
    noted: list[bool] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not noted:
            noted.append(True)
            act()

    return handle


def when_asked_to_go(act: Callable[[], None]) -> None:
    handler = once(act)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
