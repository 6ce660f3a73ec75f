"""Print what the pods of a job wrote, each line with the pod's name when there are several.

With -f, workers that come later too, until the job ends. On this machine's cluster logs of pods that are gone are kept
until the job is deleted. On another cluster Brain has the last of them for 7 days: of torchrun's workers, of scripts
that use edl.trainer and of EDL's own commands, not of other commands in images of yours. It is read through the page of
the cluster (`edl install --web`), by whoever may read logs of pods there, or where $EDL_BRAIN_URL says
($EDL_BRAIN_TOKEN opens it). The command says whose logs are gone, and why.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from edl.api.kubernetes import duration, timestamp
from edl.cli.connect.brain_logs import is_named
from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.job_logs import JobLogs, has_started
from edl.cli.connect.jobs import JobSummary, find_job
from edl.cli.connect.lasting_logs import SYSTEM, LastingLogs, lasting_logs, lines_of, loss, lost, words_of
from edl.cli.connect.log_progress import drawn
from edl.cli.connect.pod_logs import LogLine, LogRange, pod_log
from edl.cli.connect.pods import Pod, gone_pods, job_pods, last_words, role_of
from edl.cli.connect.progress import ProgressReader
from edl.cli.errors import CommandError
from edl.cli.output.terminal import harmless

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "what the pods of a job wrote"
ORDER = 80

POLL_INTERVAL = 0.5  # seconds between lists of pods


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="NAME", help="a job, or KIND/NAME")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as they write, until the job ends")
    parser.add_argument("--role", help="only pods of this role, e.g. trainer or worker")
    parser.add_argument("--pod", metavar="NAME", help="only this pod")
    parser.add_argument("--rank", type=int, metavar="N", help="only the pod of this rank (PyTorch)")
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines of each")
    parser.add_argument("--since", metavar="TIME", help="only lines of the last 5s, 2m or 3h")
    parser.add_argument("--timestamps", action="store_true", help="with the time of each line")
    add_cluster_options(parser)
    parser.add_argument("--system", metavar="NAMESPACE", default=SYSTEM, help="where EDL is (%(default)s)")


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _logs(client, namespace, options), options)


async def _logs(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    part = _range(options)
    job = await find_job(client, namespace, options.job)
    choice = await _choice(client, job, options)
    lasting = await lasting_logs(job, options, system=options.system)
    try:
        return await _print_all(client, job, choice, part, lasting, options)
    finally:
        await lasting.close()


async def _print_all(
    client: "Client",
    job: JobSummary,
    choice: "Choice",
    part: LogRange,
    lasting: LastingLogs,
    options: argparse.Namespace,
) -> int:
    pods = choice.of(await job_pods(client, job.kind, job.namespace, job.name, uid=job.uid))
    there = {pod["metadata"]["name"] for pod in pods}
    kept = [pod for pod in lasting.pods if choice.names(pod) and pod not in there]
    if not (pods or kept or last_words(job)) and (not options.follow or job.finished):
        none = f"{job.label} has {choice.described} now: {job.reason or 'see `edl describe`'}"
        raise CommandError(f"{none}\n{_no_brain(job, lasting, options)}" if lasting.why and gone_pods(job) else none)
    printer = Printer(options.timestamps, several=_several(job, [*pods, *kept], options))
    for name in kept:
        await printer.all(lasting.lines(name, part), name)
    if options.follow:
        await _follow(client, job, choice, part, printer)
    else:
        for pod in pods:
            await printer.all(pod_log(client, job.namespace, pod["metadata"]["name"], part), pod["metadata"]["name"])
    gone = await _tell_gone(client, job, choice, kept, printer)
    if lasting.why and (gone or kept or is_named()):
        print(_no_brain(job, lasting, options), file=sys.stderr)
    elif gone and lasting.unsent:
        print(f"edl: {lasting.unsent}", file=sys.stderr)
    return 0


def _no_brain(job: JobSummary, lasting: LastingLogs, options: argparse.Namespace) -> str:
    said = f"edl: the Brain, which keeps logs of pods that are gone: {harmless(lasting.why)}"
    if is_named():
        return said
    command = f"kubectl -n {options.system} exec deploy/edl-brain -- edl brain logs {job.namespace}/{job.name}"
    return f"{said}\nedl: if it is installed, an administrator reads them with: {command}"


class Choice:
    """Which pods: all, those of a role (however it is spelt), or one."""

    def __init__(self, role: str | None, pod: str | None) -> None:
        self._role, self._pod = (role or "").lower(), pod

    @property
    def described(self) -> str:
        if self._pod:
            return f"no pod {self._pod}"
        return f"no pod of role {self._role}" if self._role else "no pods"

    def of(self, pods: Sequence[Pod]) -> list[Pod]:
        named = [pod for pod in pods if not self._pod or pod["metadata"]["name"] == self._pod]
        return [pod for pod in named if not self._role or role_of(pod).lower() == self._role]

    def names(self, pod: str) -> bool:
        """Whether a pod that is gone, of which only the name is left, would have been chosen."""
        return pod == self._pod if self._pod else not self._role or f"-{self._role}-" in f"{pod}-"


class Printer:
    def __init__(self, timestamps: bool, *, several: bool) -> None:
        self._timestamps, self._several, self._terminal = timestamps, several, sys.stdout.isatty()

    def line(self, line: LogLine) -> None:
        shown = harmless("\n".join(drawn(line.text))) if self._terminal else line.text
        time_of = f"{line.time} " if self._timestamps else ""
        sys.stdout.write(f"{f'{line.pod}: ' if self._several else ''}{time_of}{shown}\n")
        sys.stdout.flush()

    async def all(self, lines: AsyncIterator[LogLine], pod: str) -> None:
        """A pod that has written nothing yet, or is gone already, does not end the others' logs."""
        from edl.kube.rest.errors import ApiError, ConnectionLostError

        try:
            async for line in lines:
                self.line(line)
        except (ApiError, ConnectionLostError) as error:
            print(f"edl: log of {pod}: {harmless(str(error))}", file=sys.stderr)


def _range(options: argparse.Namespace) -> LogRange:
    if options.tail is not None and options.tail < 0:
        raise CommandError(f"--tail {options.tail}: wants 0 or more lines")
    if options.since is None:
        return LogRange(follow=options.follow, tail=options.tail)
    try:
        seconds = duration.seconds(options.since)
    except ValueError as error:
        raise CommandError(f"--since {error}") from None
    return LogRange(follow=options.follow, since=timestamp.text(time.time() - seconds), tail=options.tail)


async def _choice(client: "Client", job: JobSummary, options: argparse.Namespace) -> Choice:
    if options.rank is None:
        return Choice(options.role, options.pod)
    view = await ProgressReader(client, job.kind, job.namespace, job.name, uid=job.uid).view()
    ranks = view.round.pods if view is not None and view.round else []
    if not 0 <= options.rank < len(ranks):
        known = f"its ranks are 0 to {len(ranks) - 1}" if ranks else "it has no ranks now; name a pod with --pod"
        raise CommandError(f"{job.label} has no rank {options.rank}: {known}")
    return Choice(options.role, ranks[options.rank])


def _several(job: JobSummary, found: Sequence[object], options: argparse.Namespace) -> bool:
    if options.pod or options.rank is not None:
        return False
    return len(found) > 1 or (options.follow and not job.finished and (job.most or 1) > 1)


async def _follow(client: "Client", job: JobSummary, choice: Choice, part: LogRange, printer: Printer) -> None:
    """Until the job has ended, and all that its pods wrote is printed. A cluster that goes away is waited for."""
    from edl.kube.rest.errors import ApiError, KubeError

    logs, silent = JobLogs(client, job.namespace, printer.line, part), False
    try:
        while True:
            try:
                pods = choice.of(await job_pods(client, job.kind, job.namespace, job.name, uid=job.uid))
                ended = (await find_job(client, job.namespace, f"{job.kind.short_names[0]}/{job.name}")).finished
                silent = False
            except (ApiError, CommandError):
                break  # it was deleted
            except KubeError as error:
                if not silent:
                    print(f"edl: the cluster does not answer ({error}); trying again", file=sys.stderr)
                silent = True
                await asyncio.sleep(POLL_INTERVAL)
                continue
            logs.renew(pods, now=time.time())
            if ended and not any(_runs(pod) for pod in pods):
                break
            await asyncio.sleep(POLL_INTERVAL)
        await logs.complete()
    finally:
        await logs.close()


def _runs(pod: Pod) -> bool:
    return has_started(pod) and (pod.get("status") or {}).get("phase") == "Running"


async def _tell_gone(
    client: "Client", job: JobSummary, choice: Choice, kept: Sequence[str], printer: Printer
) -> list[str]:
    there = {pod["metadata"]["name"] for pod in await job_pods(client, job.kind, job.namespace, job.name, uid=job.uid)}
    gone = [name for name in lost(job, {*there, *kept}) if choice.names(name)]
    for words in words_of(job, gone):
        print(f"edl: {words.pod} is gone ({words.end}); the end of what it wrote:", file=sys.stderr)
        for line in lines_of(words):
            printer.line(line)
    if gone:
        print(f"edl: {loss(gone)}", file=sys.stderr)
    return gone
