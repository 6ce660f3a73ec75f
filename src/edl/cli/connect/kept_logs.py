"""Reads logs that this machine's cluster has kept of pods that are gone."""

from collections.abc import AsyncIterator, Iterator

from edl.api.kubernetes import timestamp
from edl.cli.connect.cluster import home
from edl.cli.connect.pod_logs import LogLine, LogRange
from edl.embedded.home import Home
from edl.embedded.kept_logs import KeptLog, KeptLogs
from edl.embedded.node.logs import LogOptions, read

__all__ = ["KeptLog", "kept_lines", "kept_logs"]


def kept_logs(job_uid: str) -> Iterator[KeptLog]:
    return KeptLogs(Home(home()).logs).of(job_uid)


async def kept_lines(log: KeptLog, part: LogRange) -> AsyncIterator[LogLine]:
    since = timestamp.seconds(part.since) if part.since else None
    async for piece in read(log.path, LogOptions(tail_lines=part.tail, since=since, timestamps=True)):
        for line in piece.splitlines():
            time, _, text = line.partition(b" ")
            yield LogLine(log.pod, time.decode(errors="replace"), text.decode(errors="replace"))
