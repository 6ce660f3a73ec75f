"""Wait until jobs have ended, or run. Exit code 0 if all did what was waited for, 1 if one failed, 2 if time is up."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from edl.api.kubernetes import duration
from edl.cli.commands.jobs.describe import cause_of
from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import JobSummary, find_job
from edl.cli.errors import CommandError
from edl.cli.output.terminal import harmless

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "wait until jobs have ended"
ORDER = 47

POLL_INTERVAL = 0.5
TIMED_OUT = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="NAME", nargs="+", help="a job, or KIND/NAME")
    parser.add_argument("--for", dest="goal", choices=("end", "running"), default="end", help="(default end)")
    parser.add_argument("--timeout", metavar="TIME", help="give up after 30s, 5m or 2h (default: never)")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    try:
        seconds = duration.seconds(options.timeout) if options.timeout else None
    except ValueError as error:
        raise CommandError(f"--timeout {error}") from None
    return with_cluster(lambda client, namespace: _wait(client, namespace, options, seconds), options)


async def _wait(client: "Client", namespace: str, options: argparse.Namespace, seconds: float | None) -> int:
    try:
        async with asyncio.timeout(seconds):
            ended = [await _until(client, namespace, wanted, options.goal) for wanted in options.jobs]
    except TimeoutError:
        print(f"edl: not within {options.timeout}; they go on", file=sys.stderr)
        return TIMED_OUT
    for job in ended:
        print(harmless(f"{job.label} {job.phase.lower()}"))
    failed = [job for job in ended if job.phase.lower() == "failed"]
    for job in failed:
        print(f"edl: {job.label} failed: {harmless(cause_of(job) or job.reason)}", file=sys.stderr)
    return 1 if failed else 0


async def _until(client: "Client", namespace: str, wanted: str, goal: str) -> JobSummary:
    while True:
        job = await find_job(client, namespace, wanted)
        if job.finished or (goal == "running" and job.phase.lower() == "running"):
            return job
        await asyncio.sleep(POLL_INTERVAL)
