"""A job as an object: what it is doing, what it wrote, and how to change it. Every call asks the cluster anew."""

import asyncio
import html
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

from edl.cli.commands.jobs.describe import cause_of
from edl.cli.commands.jobs.pause import pause_job
from edl.cli.commands.jobs.scale import ask_size
from edl.cli.connect.job_logs import JobLogs, has_started
from edl.cli.connect.jobs import JobSummary, all_jobs, find_job, resource_of
from edl.cli.connect.lasting_logs import SYSTEM, LastingLogs, lasting_logs, lines_of, loss, lost, words_of
from edl.cli.connect.log_progress import figures
from edl.cli.connect.pod_logs import LogLine, LogRange, pod_log
from edl.cli.connect.pods import Pod, job_pods
from edl.client.session import Cluster
from edl.kube.rest.client import Client

LOOK = 0.5
COLUMNS = ("time", "step", "epoch", "loss", "throughput")


class Job:
    """`job.name`, `job.namespace` and `job.kind` never change; everything else is asked for."""

    def __init__(self, summary: JobSummary, cluster: Cluster) -> None:
        self._last, self._cluster = summary, cluster

    @property
    def name(self) -> str:
        return self._last.name

    @property
    def namespace(self) -> str:
        return self._last.namespace

    @property
    def kind(self) -> str:
        return self._last.kind.name

    def status(self) -> dict[str, Any]:
        """phase, size, target, min, max, reason, progress (as in `status.progress`), and cause if it has failed."""
        job = self._refresh()
        return {
            "phase": job.stage or "new",
            "size": job.now or 0,
            "target": job.target,
            "min": job.least,
            "max": job.most,
            "reason": job.reason,
            "progress": dict(job.status.get("progress") or {}),
            "cause": cause_of(job),
        }

    def wait(self, timeout: float | None = None) -> "Job":
        """Until it has ended. TimeoutError if it has not within so many seconds; it goes on."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._refresh().finished:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"{self._last.label} has not ended within {timeout:g} s: {self._last.stage}")
            time.sleep(LOOK)
        return self

    def logs(self, *, follow: bool = False, tail: int | None = None, system: str = SYSTEM) -> Iterator[str]:
        """Lines of all its pods, of those that are gone too where they are kept; with `follow` until it ends. A warning
        says whose logs are gone. `system` is the namespace of the installation, whose page leads to Brain's logs."""
        missing: list[str] = []
        for line in self._lines(LogRange(follow=follow, tail=tail), missing, system):
            yield line.text
        for words in missing:
            warnings.warn(words, stacklevel=2)

    def metrics(self) -> Any:
        """Steps, epochs, losses and samples per second over time, as its log lines tell them: plain lists by name, a
        DataFrame if pandas is installed."""
        found: dict[str, list[Any]] = {column: [] for column in COLUMNS}
        for line in self._lines(LogRange(), []):
            if (report := figures(line.text)) is not None:
                values = (line.time, report.done, report.epoch, report.loss, report.throughput)
                for column, value in zip(COLUMNS, values, strict=True):
                    found[column].append(value)
        try:
            import pandas  # type: ignore[import-untyped]  # the user's, if there is one
        except ImportError:
            return found
        return pandas.DataFrame(found)

    def scale(self, size: int) -> None:
        """Asks for a size, which is held for a while."""
        self._cluster.call(lambda client, namespace: self._asked(client, size))

    async def _asked(self, client: Client, size: int) -> None:
        await ask_size(client, await self._found(client), size)

    def pause(self) -> None:
        """Holds it at its present size."""
        self._cluster.call(lambda client, namespace: self._paused(client, True))

    def resume(self) -> None:
        """Lets it be scaled again."""
        self._cluster.call(lambda client, namespace: self._paused(client, False))

    async def _paused(self, client: Client, paused: bool) -> None:
        await pause_job(client, await self._found(client), paused=paused)

    def delete(self) -> None:
        """With everything that it owns."""

        async def work(client: Client, namespace: str) -> None:
            job = self._last
            await client.delete(resource_of(job.kind), job.name, namespace=job.namespace, uid=job.uid)

        self._cluster.call(work)

    def _refresh(self) -> JobSummary:
        self._last = self._cluster.call(lambda client, namespace: self._found(client))
        return self._last

    async def _found(self, client: Client) -> JobSummary:
        return await find_job(client, self.namespace, f"{self._last.kind.short_names[0]}/{self.name}")

    def _lines(self, part: LogRange, missing: list[str], system: str = SYSTEM) -> Iterator[LogLine]:
        """`missing` is told whose logs are gone."""
        return self._cluster.stream(lambda client, namespace: self._read(client, part, missing, system))

    async def _read(self, client: Client, part: LogRange, missing: list[str], system: str) -> AsyncIterator[LogLine]:
        job = await self._found(client)
        lasting = await lasting_logs(job, self._cluster.options, system=system)
        try:
            pods = await job_pods(client, job.kind, job.namespace, job.name, uid=job.uid)
            async for line in _read_gone(job, pods, lasting, part, missing):
                yield line
        finally:
            await lasting.close()
        if part.follow:
            async for line in self._followed(client, part):
                yield line
        else:
            for pod in filter(has_started, pods):
                async for line in pod_log(client, job.namespace, pod["metadata"]["name"], part):
                    yield line

    async def _followed(self, client: Client, part: LogRange) -> AsyncIterator[LogLine]:
        written: list[LogLine] = []
        logs, ended = JobLogs(client, self.namespace, written.append, part), False
        try:
            while not ended:
                job = await self._found(client)
                pods = await job_pods(client, job.kind, job.namespace, job.name, uid=job.uid)
                logs.renew(pods, now=time.time())
                ended = job.finished and not any(map(_runs, pods))
                await (logs.complete() if ended else asyncio.sleep(LOOK))
                lines, written[:] = list(written), []
                for line in lines:
                    yield line
        finally:
            await logs.close()

    def _shown(self) -> list[tuple[str, str]]:
        job = self._last
        progress = job.status.get("progress") or {}
        figures_ = [str(progress.get("shown") or ""), f"ETA {progress['eta']}" if progress.get("eta") else ""]
        figures_ += [f"loss {progress['loss']:.4g}"] if progress.get("loss") is not None else []
        return [
            ("job", job.label),
            ("phase", job.stage or "new"),
            ("size", f"{job.now or 0} of {job.target or 0} ({job.least or 1}..{job.most or 1})"),
            ("progress", ", ".join(filter(None, figures_))),
            ("reason", job.reason),
        ]

    def __repr__(self) -> str:
        """As it was when it was last asked for."""
        return f"<{', '.join(f'{name} {value}' for name, value in self._shown() if value)}>"

    def _repr_html_(self) -> str:
        self._refresh()
        rows = "".join(
            f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in self._shown() if value
        )
        return f"<table>{rows}</table>"


async def _read_gone(
    job: JobSummary, pods: list[Pod], lasting: LastingLogs, part: LogRange, missing: list[str]
) -> AsyncIterator[LogLine]:
    """What is left of pods that are gone: their logs, else their last words."""
    there = {pod["metadata"]["name"] for pod in pods}
    for name in lasting.pods:
        if name not in there:
            async for line in lasting.lines(name, part):
                yield line
    gone = lost(job, {*there, *lasting.pods})
    for words in words_of(job, gone):
        for line in lines_of(words):
            yield line
    if gone or (lasting.why and lasting.pods):
        why = lasting.why or lasting.unsent
        missing.append(": ".join(filter(None, (loss(gone) if gone else "logs of pods that are gone", why))))


def _runs(pod: Pod) -> bool:
    return has_started(pod) and (pod.get("status") or {}).get("phase") == "Running"


def get(name: str, *, namespace: str | None = None, kubeconfig: str | None = None) -> Job:
    """The job called NAME, or KIND/NAME where two kinds have one of that name."""
    cluster = Cluster(kubeconfig, namespace)
    found = cluster.call(lambda client, where: find_job(client, where, name))
    return Job(found, cluster._replace(namespace=found.namespace))


def list_jobs(
    *, namespace: str | None = None, all_namespaces: bool = False, kubeconfig: str | None = None
) -> list[Job]:
    cluster = Cluster(kubeconfig, namespace)
    found = cluster.call(lambda client, where: all_jobs(client, None if all_namespaces else where))
    return [Job(job, cluster._replace(namespace=job.namespace)) for job in found]
