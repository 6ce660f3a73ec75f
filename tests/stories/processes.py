"""The processes of process pods, found by the uid of their job in their environment, never by a name alone."""

import os
import signal
from pathlib import Path


def of_pod(job_uid: str, pod: str) -> list[int]:
    """Oldest first, which numbers do not tell: they begin anew at the system's largest."""
    wanted = {f"EDL_JOB_UID={job_uid}".encode(), f"EDL_POD_NAME={pod}".encode()}
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    found = [(_started(entry), int(entry.name)) for entry in entries if wanted <= _environment(entry)]
    return [pid for _, pid in sorted(found)]


def kill_pod(job_uid: str, pod: str) -> list[int]:
    """kill -9 of all that runs in the pod; their numbers."""
    killed = of_pod(job_uid, pod)
    for pid in killed:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return killed


def _environment(process: Path) -> set[bytes]:
    try:
        return set((process / "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def _started(process: Path) -> int:
    """In ticks since the system started; the name before it may hold anything."""
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return 0
