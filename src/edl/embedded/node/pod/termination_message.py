"""Termination message of a container: the file it may write, else (if it asks for that) the end of its log."""

from pathlib import Path

from edl.embedded.node.logs import tail
from edl.embedded.node.pod.types import Container

_FILE_BYTES = 4096
_LOG_BYTES, _LOG_LINES = 2048, 80


def termination_message(container: Container, code: int, message: Path, log: Path) -> str:
    try:
        with message.open("rb") as file:
            said = file.read(_FILE_BYTES)
    except OSError:
        said = b""
    if not said and code != 0 and container.termination_message_policy == "FallbackToLogsOnError":
        said = tail(log, lines=_LOG_LINES)[-_LOG_BYTES:]
    return said.decode(errors="replace")
