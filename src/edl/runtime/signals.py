"""What a process does when it is asked to go.

A handler runs between any two steps of the main thread, also in the middle of another handler, or while that thread
holds a lock of Python's: if it waits for the same lock, as `Event.set()` does, the process is stuck until it is killed.
So a handler only puts into a SimpleQueue, which may be interrupted by itself, and a thread does what is to be done.
"""

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue


def when_asked_to_go(act: Callable[[], None]) -> None:
    """Once, however often it is asked."""
    asked: SimpleQueue[None] = SimpleQueue()

    def wait() -> None:
        asked.get()
        act()

    threading.Thread(target=wait, name="asked-to-go", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.put(None))
