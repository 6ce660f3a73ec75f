"""Kubernetes API server on SQLite for one machine: the part of the API that EDL and daily kubectl use need
(docs/concepts/embedded-api-server.md).
"""

from edl.embedded.server.server import Server
from edl.embedded.server.verbs.call import ADMIN, User

__all__ = ["ADMIN", "Server", "User"]
