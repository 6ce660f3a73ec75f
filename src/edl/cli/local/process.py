"""Identity of the cluster's background process: a pid together with its start time, so that no other is signalled."""

import os
import signal
from pathlib import Path

from edl.embedded.home import RunningCluster


def start_time(pid: int) -> int | None:
    """When a process began, in ticks since boot."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[19])


def send_signal(running: RunningCluster, number: signal.Signals) -> None:
    """Signal the process that `running` names; nothing if it has ended."""
    try:
        handle = os.pidfd_open(running.pid)
    except OSError:
        return
    try:
        if start_time(running.pid) == running.start:
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)
