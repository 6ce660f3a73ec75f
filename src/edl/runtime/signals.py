"""Handles SIGTERM and SIGINT without deadlocks.

A signal handler runs between any two steps of the main thread, also inside another handler or while that thread holds a
lock: if it waits for the same lock, as `Event.set()` does, the process hangs. So the handler only puts into a
SimpleQueue, which is reentrant, and a thread acts.
"""

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue


def on_termination(act: Callable[[], None]) -> None:
    """Calls `act` in a thread at the first SIGTERM or SIGINT; later ones are ignored."""
    signals: SimpleQueue[None] = SimpleQueue()

    def wait() -> None:
        signals.get()
        act()

    threading.Thread(target=wait, name="termination", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: signals.put(None))
