"""What is left of the logs of pods that are gone, for whoever prints it and for whoever reads it in Python.

The cluster of this machine keeps logs itself until the job is deleted. Of another one Brain has the last of them for a
few days, and the job's status the last words of pods that failed. Logs of pods that are there are none of its business.
"""

import argparse
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from edl.cli.connect.brain_logs import brain_logs
from edl.cli.connect.cluster import is_local
from edl.cli.connect.kept_logs import kept_lines, kept_logs
from edl.cli.connect.pod_logs import LogLine, LogRange
from edl.cli.connect.pods import LastWords, gone_pods, last_words

if TYPE_CHECKING:
    from edl.cli.connect.jobs import JobSummary

SYSTEM = "edl-system"
NAMED = 5  # pods whose logs are lost that are said by name


class LastingLogs(Protocol):
    """Of one job. `why` says why nobody could be asked; `unsent` why a log may be missing even so."""

    why: str
    unsent: str

    @property
    def pods(self) -> Sequence[str]:
        """Of which there is a log, those that are there among them."""
        ...

    def lines(self, pod: str, part: LogRange) -> AsyncIterator[LogLine]: ...

    async def close(self) -> None: ...


class LogsOnThisMachine:
    def __init__(self, job_uid: str) -> None:
        self._kept = {log.pod: log for log in kept_logs(job_uid)}
        self.why = self.unsent = ""

    @property
    def pods(self) -> Sequence[str]:
        return list(self._kept)

    def lines(self, pod: str, part: LogRange) -> AsyncIterator[LogLine]:
        return kept_lines(self._kept[pod], part)

    async def close(self) -> None:
        pass


async def lasting_logs(job: "JobSummary", options: argparse.Namespace, *, system: str) -> LastingLogs:
    """`options` say which cluster, `system` is the namespace of the installation there. To be closed."""
    return LogsOnThisMachine(job.uid) if is_local(options) else await brain_logs(job, options.kubeconfig, system)


def lost(job: "JobSummary", known: Collection[str]) -> list[str]:
    """Pods that the job once had, and of whose logs nobody has anything but perhaps their last words."""
    return [name for name in gone_pods(job) if name not in known]


def words_of(job: "JobSummary", pods: Collection[str]) -> list[LastWords]:
    """What the job's status has of logs that are lost: their ends."""
    return [words for words in last_words(job) if words.pod in pods and words.message]


def lines_of(words: LastWords) -> list[LogLine]:
    return [LogLine(words.pod, words.time, line) for line in words.message.splitlines()]


def loss(pods: Sequence[str]) -> str:
    """That they are lost, in words."""
    more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
    return f"gone with their pods: the logs of {', '.join(pods[:NAMED])}{more}"
