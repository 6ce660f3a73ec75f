"""A Kubernetes API server on SQLite, for one machine: what EDL's own stories and daily kubectl use need, done right
(docs/embedded.md)."""

from edl.embedded.server.call import ADMIN, User
from edl.embedded.server.server import Server

__all__ = ["ADMIN", "Server", "User"]
