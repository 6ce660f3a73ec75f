"""Reads logs that the Brain keeps of pods that are gone, for a few days, where $EDL_BRAIN_URL says where it is."""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from edl.cli.connect.pod_logs import LogLine, LogRange

if TYPE_CHECKING:
    from edl.brain.client import BrainClient
    from edl.cli.connect.jobs import JobSummary

_SECOND = len("2026-11-18T01:02:03")


class BrainLogs:
    """Of one job. `why` says why there are none, if somebody should know."""

    def __init__(self, client: "BrainClient | None", job: str, pods: list[str], why: str = "") -> None:
        self._client, self._job, self.pods, self.why = client, job, pods, why

    @property
    def asked(self) -> bool:
        """Whether somebody said where a Brain is."""
        return self._client is not None or bool(self.why)

    async def lines(self, pod: str, part: LogRange) -> AsyncIterator[LogLine]:
        """Nothing if it cannot be had any more: then `why` says so."""
        from edl.brain.client import BrainDownError, BrainRefusalError

        assert self._client is not None
        try:
            text = await asyncio.to_thread(self._client.log, self._job, pod)
        except (BrainDownError, BrainRefusalError) as error:
            self.why = str(error)
            return
        for line in chosen(pod, text, part):
            yield line


def chosen(pod: str, text: str, part: LogRange) -> Iterator[LogLine]:
    """The lines of a kept log that are in the range."""
    split = (line.partition(" ") for line in text.split("\n") if line)  # no other character ends a line
    lines = [LogLine(pod, time, said.rstrip("\r")) for time, _, said in split]
    since = part.since[:_SECOND]
    found = [line for line in lines if line.time[:_SECOND] >= since]
    yield from found if part.tail is None else found[len(found) - min(part.tail, len(found)) :]


async def brain_logs(job: "JobSummary") -> BrainLogs:
    """What is kept of the job's pods, those that are there among them."""
    from edl.brain.client import BrainDownError, BrainRefusalError
    from edl.brain.tokens import READER
    from edl.cli.connect.brain import brain_client

    name = f"{job.namespace}/{job.name}/{job.uid}"
    if not os.environ.get("EDL_BRAIN_URL"):
        return BrainLogs(None, name, [])
    try:
        client = brain_client(argparse.Namespace(url=None, token=None), READER)
        return BrainLogs(client, name, [log.pod for log in await asyncio.to_thread(client.logs, name)])
    except (BrainDownError, BrainRefusalError, ValueError) as error:
        return BrainLogs(None, name, [], why=str(error))
