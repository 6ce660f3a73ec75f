"""Listening sockets of processes: `kubectl port-forward` reaches servers on localhost, but only those of its pod."""

from collections.abc import Iterable

import psutil

from edl.embedded.node.supervisor import processes


def any_listens_on_localhost(roots: Iterable[int], port: int) -> bool:
    """Whether one of the processes, or of their descendants, does."""
    return any(_listens_on_localhost(pid, port) for pid in processes.descendants(processes.table(), roots))


def _listens_on_localhost(pid: int, port: int) -> bool:
    """On 127.0.0.1 alone: one that listens on every address is reached at the pod's."""
    try:
        connections = psutil.Process(pid).net_connections(kind="tcp4")
    except psutil.Error:
        return False
    return any(
        one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.laddr.ip == "127.0.0.1"
        for one in connections
    )
