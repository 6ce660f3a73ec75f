"""Stops the cluster of a home: SIGTERM to the process that holds its lock, SIGKILL if it does not end.

Either way no process of it is left, nor of one that was killed before.
"""

import signal
import time
from pathlib import Path

import msgspec

from edl.cli.local.process import send_signal
from edl.cli.local.up import UpError
from edl.embedded.home import Claim, Home, HomeInUseError, RunningCluster

_STOP_SECONDS = 30.0


class Stopped(msgspec.Struct, frozen=True):
    """`running` is what ran, if anything did; `left` counts processes of an earlier crash that were killed."""

    running: RunningCluster | None
    left: int = 0


def stop(path: Path, *, timeout: float = _STOP_SECONDS) -> Stopped:
    """End the cluster of a home, and whatever is left of one that was killed."""
    from edl.embedded.node.supervisor.processes import kill_marked

    home = Home(path)
    if not path.exists():
        return Stopped(None)
    running = None
    try:
        claim = home.claim()
    except HomeInUseError as busy:
        running = busy.running
        claim = _stop_holder(home, busy, timeout)
    try:
        left = kill_marked(home.owner) if (path / "owner").exists() else 0
    finally:
        claim.close()
    return Stopped(running, left)


def _stop_holder(home: Home, busy: HomeInUseError, timeout: float) -> Claim:
    if busy.running is None:
        raise UpError(f"a cluster is being started on {home.path}; try again in a moment")
    deadline = time.monotonic() + timeout
    send_signal(busy.running, signal.SIGTERM)
    while True:
        try:
            return home.claim()
        except HomeInUseError:
            if time.monotonic() >= deadline:
                send_signal(busy.running, signal.SIGKILL)
                deadline = time.monotonic() + timeout
            time.sleep(0.02)
