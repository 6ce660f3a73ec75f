"""Lines of one pod's log as they are written, with the time of each. A connection that breaks is taken up again where
it broke: no line is lost or told twice.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from edl.cli.connect.pods import pods_resource

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

FOREVER = 10 * 365 * 86400.0  # a log may be silent for as long as it likes
AGAIN = 1.0  # seconds before a connection that broke is made again
LONGEST = 1 << 16  # bytes of a line; what writes longer ones is not text


class LogLine(NamedTuple):
    pod: str
    time: str
    """When it was written, to the nanosecond, as Kubernetes has it."""
    text: str


class LogRange(NamedTuple):
    """Which part of a log: from a time on, or the last lines; with `follow` also what is to come."""

    follow: bool = False
    since: str = ""
    tail: int | None = None

    def query(self) -> dict[str, str]:
        wanted = {
            "follow": "true" if self.follow else "",
            "sinceTime": self.since,
            "tailLines": "" if self.tail is None else str(self.tail),
        }
        return {"timestamps": "true"} | {name: value for name, value in wanted.items() if value}


async def pod_log(client: "Client", namespace: str, pod: str, part: LogRange) -> AsyncIterator[LogLine]:
    """ApiError if the pod has no log, e.g. because it is gone. Followed, one that is still to start is waited for."""
    from edl.kube.rest.errors import ApiError, ConnectionLostError

    told = _Told()
    while True:
        try:
            async for line in _stream(client, namespace, pod, part):
                if told.is_news(line):
                    yield line
            return
        except ConnectionLostError:
            if not part.follow:
                raise
        except ApiError as error:
            if not (part.follow and error.status.code == 400):  # its container has not started yet
                raise
        await asyncio.sleep(AGAIN)
        if told.last:
            part = part._replace(since=told.last, tail=None)
            told.begin_again()


class _Told:
    """What of a log was told already. Lines of one moment are told apart by their order alone."""

    def __init__(self) -> None:
        self.last = ""
        self._of_last = 0  # lines of that time
        self._skip = 0

    def begin_again(self) -> None:
        """The log is read again from the last time on."""
        self._skip = self._of_last

    def is_news(self, line: LogLine) -> bool:
        if self._skip and line.time <= self.last:
            self._skip -= line.time == self.last
            return False
        self._skip = 0
        self._of_last = self._of_last + 1 if line.time == self.last else 1
        self.last = line.time
        return True


async def _stream(client: "Client", namespace: str, pod: str, part: LogRange) -> AsyncIterator[LogLine]:
    from edl.kube.rest.transport import Request

    path = pods_resource().path(namespace, pod, "log")
    rest = b""
    async for chunk in client.stream(Request("GET", path, part.query(), accept="*/*"), idle=FOREVER):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield _line(pod, line)
        rest = rest[:LONGEST]
    if rest:
        yield _line(pod, rest)


def _line(pod: str, line: bytes) -> LogLine:
    time, _, text = line.partition(b" ")
    return LogLine(pod, time.decode(errors="replace"), text[:LONGEST].decode(errors="replace").rstrip("\r"))
