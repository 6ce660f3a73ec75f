"""Free ports without a race: a port stays bound, though nobody listens on it here, until its user has bound it too."""

import socket


class Ports:
    """Reserved loopback ports, for programs that bind with SO_REUSEPORT (etcd and kube-apiserver have flags for it)."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def reserve(self) -> int:
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("127.0.0.1", 0))
        self._held.append(holder)
        return int(holder.getsockname()[1])

    def release(self) -> None:
        while self._held:
            self._held.pop().close()
