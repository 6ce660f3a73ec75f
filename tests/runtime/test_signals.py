"""Repeated SIGTERM: a process ends once and never hangs between two signals."""

import os
import signal
import subprocess
import sys
from subprocess import PIPE

import pytest

ASKED = """
import select, sys, threading
from edl.runtime.signals import on_termination

asked = threading.Event()
threading.Thread(target=asked.wait, daemon=True).start()
on_termination(asked.set)
print("up", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:  # all are sent: a process that ends no longer handles signals
    pass
raise SystemExit(0 if asked.wait(60) else 1)
"""


@pytest.mark.parametrize("turn", range(5))
def test_many_requests_at_once_are_one(turn: int) -> None:
    """With a handler that sets the event itself, about every third turn hangs."""
    process = subprocess.Popen([sys.executable, "-c", ASKED], stdin=PIPE, stdout=PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    for _ in range(1000):
        os.kill(process.pid, signal.SIGTERM)
    process.stdin.close()
    try:
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
