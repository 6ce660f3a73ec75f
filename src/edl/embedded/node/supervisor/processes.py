"""The machine's process table: descendants, processes that carry our mark, memory that a container really holds.

A process is never found by its name. Signals go through a pidfd, and the start time is compared once it is open, so
that a number that was given to another process in between is not hit.
"""

import os
import signal
from collections.abc import Iterable
from typing import NamedTuple

MARK = "EDL_CONTAINER_ID"
"""In the environment of every container process: `<owner>/<container>`. The owner is one per $EDL_HOME or node."""

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    start: int
    private_bytes: int
    """Resident memory that is not shared with a file: pages shared between forked processes count in each."""


def table() -> dict[int, Process]:
    """Every process that is not a zombie."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = _read(int(name))
            if process is not None:
                found[process.pid] = process
    return found


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b")")[2].split()
        if fields[0] == b"Z":
            return None
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            memory = file.read().split()
    except OSError:
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), (int(memory[1]) - int(memory[2])) * _PAGE)


def descendants(processes: dict[int, Process], roots: Iterable[int]) -> set[int]:
    """The roots that live, and everything below them."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return found & processes.keys()


def mark_of(pid: int) -> str:
    """The mark in a process's environment; empty when it has none or is not ours to look at."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            variables = b"\0" + file.read()
    except OSError:
        return ""
    return variables.partition(f"\0{MARK}=".encode())[2].partition(b"\0")[0].decode(errors="replace")


def kill(process: Process) -> bool:
    """SIGKILL the process if it still is the one that was seen."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        now = _read(process.pid)
        if now is None or now.start != process.start:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def kill_marked(owner: str) -> int:
    """SIGKILL whatever an owner left behind, until nothing is found; how many it were."""
    killed = 0
    while True:
        left = [process for process in table().values() if mark_of(process.pid).startswith(f"{owner}/")]
        hit = sum(kill(process) for process in left)
        if not hit:
            return killed
        killed += hit


def held_bytes(pids: Iterable[int]) -> int:
    """Memory that ending these processes would free: pages shared among them count once. Exact, and slow for big
    processes.
    """
    return sum(_proportional(pid) for pid in pids)


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return 0
    return sum(int(words[1]) * 1024 for words in lines if words[0] in (b"Pss_Anon:", b"Pss_Shmem:"))
