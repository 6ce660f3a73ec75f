"""Who listens where: `kubectl port-forward` reaches servers that bind to localhost, but only a pod's own."""

import psutil


def listens_on_localhost(pid: int, port: int) -> bool:
    """On 127.0.0.1 alone: one that listens on every address is reached at the pod's."""
    try:
        connections = psutil.Process(pid).net_connections(kind="tcp4")
    except psutil.Error:
        return False
    return any(
        one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port and one.laddr.ip == "127.0.0.1"
        for one in connections
    )
