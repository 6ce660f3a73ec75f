"""Repeated SIGTERM: a process ends once and never hangs between two signals."""

import os
import signal
import subprocess
import sys

import pytest

ASKED = """
import threading, time
from edl.runtime.signals import on_termination

asked = threading.Event()
threading.Thread(target=asked.wait, daemon=True).start()
on_termination(asked.set)
print("up", flush=True)
end = time.monotonic() + 0.2
while time.monotonic() < end:
    pass
raise SystemExit(0 if asked.is_set() else 1)
"""


@pytest.mark.parametrize("turn", range(5))
def test_many_requests_at_once_are_one(turn: int) -> None:
    """With a handler that sets the event itself, about every third turn hangs."""
    process = subprocess.Popen([sys.executable, "-c", ASKED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    for _ in range(1000):
        os.kill(process.pid, signal.SIGTERM)
    try:
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.communicate()
