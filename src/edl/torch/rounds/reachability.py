"""Whether the pods of a round can be reached: members that live but do not reach each other would try for ever.

Each pod is asked by a connection to its agent's store. A refusal is an answer: the host is there, and whether its agent
lives is known to the job service. Only silence, or a network without a way there, counts.
"""

import errno
import socket
from collections.abc import Sequence

PATIENCE = 3.0  # seconds that a pod has to answer
NO_WAY = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EHOSTDOWN}


def answers(endpoint: str, patience: float = PATIENCE) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=patience).close()
    except TimeoutError:
        return False
    except OSError as error:
        return error.errno not in NO_WAY
    return True


def unreached(agents: Sequence[str], endpoints: Sequence[str]) -> tuple[str, ...]:
    """Those whose endpoint does not answer; endpoints of an older agent are not known."""
    return tuple(agent for agent, endpoint in zip(agents, endpoints, strict=False) if not answers(endpoint))
