"""Reads logs that Brain keeps of pods that are gone, for a few days.

Where $EDL_BRAIN_URL says where it is, from there. Else through the page that the cluster has (`edl ui` goes the same
way): with the user's own token, and only for whoever may read logs of pods in the job's namespace.
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from edl.cli.connect.cluster import chosen_kubeconfig
from edl.cli.connect.pod_logs import LogLine, LogRange

if TYPE_CHECKING:
    from edl.brain.client import BrainClient
    from edl.cli.connect.jobs import JobSummary
    from edl.web.tunnel import Tunnel

T = TypeVar("T")
_SECOND = len("2026-11-18T01:02:03")
WITHIN = 10.0  # seconds for the list of logs: what pods write that are there does not wait longer
TEXT_WITHIN = 60.0


NOT_SENT = (
    "Brain has nothing of them: it keeps logs for days, and gets those of torchrun, of scripts that use edl.trainer, "
    "and of EDL's own commands; a command of yours in an image of yours sends none"
)


class LogsUnavailableError(Exception):
    """Logs that Brain keeps cannot be had; the text says why."""


class LogSource(Protocol):
    """Logs of one job. Both raise LogsUnavailableError."""

    async def pods(self) -> list[str]: ...

    async def text(self, pod: str) -> str: ...

    async def close(self) -> None: ...


class FromBrain:
    """`job` is namespace/name/uid."""

    def __init__(self, client: "BrainClient", job: str) -> None:
        self._client, self._job = client, job

    async def pods(self) -> list[str]:
        return [log.pod for log in await self._asked(lambda: self._client.logs(self._job))]

    async def text(self, pod: str) -> str:
        return await self._asked(lambda: self._client.log(self._job, pod))

    async def close(self) -> None:
        self._client.close()

    async def _asked(self, call: Callable[[], T]) -> T:
        from edl.brain.client import BrainDownError, BrainRefusalError

        try:
            return await asyncio.to_thread(call)
        except (BrainDownError, BrainRefusalError) as error:
            raise LogsUnavailableError(str(error)) from None


class FromPage:
    def __init__(self, tunnel: "Tunnel", job: "JobSummary") -> None:
        self._tunnel, self._query = tunnel, {"uid": job.uid}
        self._path = f"/api/v1/jobs/{job.kind.crd_name}/{quote(job.namespace)}/{quote(job.name)}/logs"

    async def pods(self) -> list[str]:
        from edl.web.types import KeptLogs

        answer = await self._asked(self._path, WITHIN)
        try:
            return [log.pod for log in msgspec.json.decode(answer, type=KeptLogs).logs]
        except msgspec.DecodeError as error:
            raise LogsUnavailableError(f"the page of the cluster answers what makes no sense: {error}") from None

    async def text(self, pod: str) -> str:
        return (await self._asked(f"{self._path}/{quote(pod)}", TEXT_WITHIN)).decode(errors="replace")

    async def close(self) -> None:
        await self._tunnel.close()

    async def _asked(self, path: str, within: float) -> bytes:
        from edl.kube.rest.errors import KubeError
        from edl.web.tunnel import NoPageError

        try:
            return await self._tunnel.get(path, self._query, within=within)
        except (NoPageError, KubeError) as error:
            raise LogsUnavailableError(str(error)) from None


class BrainLogs:
    """Of one job. `why` says why there are none, if that could not be found out."""

    def __init__(self, source: LogSource | None = None, pods: list[str] | None = None, why: str = "") -> None:
        self._source, self.pods, self.why = source, pods or [], why
        self.unsent = NOT_SENT

    async def lines(self, pod: str, part: LogRange) -> AsyncIterator[LogLine]:
        """Nothing if it cannot be had any more: then `why` says so."""
        assert self._source is not None
        try:
            text = await self._source.text(pod)
        except LogsUnavailableError as error:
            self.why = str(error)
            return
        for line in chosen(pod, text, part):
            yield line

    async def close(self) -> None:
        if self._source is not None:
            await self._source.close()


def chosen(pod: str, text: str, part: LogRange) -> Iterator[LogLine]:
    """The lines of a kept log that are in the range."""
    split = (line.partition(" ") for line in text.split("\n") if line)  # no other character ends a line
    lines = [LogLine(pod, time, said.rstrip("\r")) for time, _, said in split]
    since = part.since[:_SECOND]
    found = [line for line in lines if line.time[:_SECOND] >= since]
    yield from found if part.tail is None else found[len(found) - min(part.tail, len(found)) :]


async def brain_logs(job: "JobSummary", kubeconfig: str | None, system: str) -> BrainLogs:
    """What is kept of the job's pods, those that are there among them. To be closed."""
    try:
        source = _source(job, kubeconfig, system)
    except ValueError as error:
        return BrainLogs(why=str(error))
    try:
        return BrainLogs(source, await source.pods())
    except LogsUnavailableError as error:
        await source.close()
        return BrainLogs(why=str(error))


def is_named() -> bool:
    """Whether the user says where Brain is."""
    return bool(os.environ.get("EDL_BRAIN_URL"))


def _source(job: "JobSummary", kubeconfig: str | None, system: str) -> LogSource:
    if is_named():
        from edl.brain.tokens import READER
        from edl.cli.connect.brain import brain_client

        client = brain_client(argparse.Namespace(url=None, token=None), READER)
        return FromBrain(client, f"{job.namespace}/{job.name}/{job.uid}")
    from edl.kube.auth.kubeconfig import load_client_config
    from edl.web.tunnel import Tunnel

    return FromPage(Tunnel(load_client_config(chosen_kubeconfig(kubeconfig)), system), job)
