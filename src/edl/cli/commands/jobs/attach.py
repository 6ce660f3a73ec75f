"""The live view of jobs that run: log lines, table, news, as `edl run` shows them. Ctrl-C asks what to do with them.

Exit code 0 if all succeeded, 1 if one failed, 130 if you left before.
"""

import argparse
from typing import TYPE_CHECKING

from edl.cli.commands.jobs.run import follow_to_the_end
from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import find_job
from edl.cli.connect.pod_logs import LogRange
from edl.cli.output.follow import WatchedJob
from edl.cli.output.job_output import CHOICES, JobOutput

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "watch jobs that run, as `edl run` does"
ORDER = 45


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="NAME", nargs="+", help="a job, or KIND/NAME")
    parser.add_argument(
        "--logs", choices=CHOICES, default="rank-0", help="whose log lines are shown (default rank-0: of rank 0)"
    )
    parser.add_argument("--tail", type=int, default=20, metavar="N", help="lines of before (default %(default)s)")
    parser.add_argument("--no-log-progress", action="store_true", help="look for no step or loss in log lines")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _attach(client, namespace, options), options)


async def _attach(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    jobs = [await find_job(client, namespace, wanted) for wanted in options.jobs]
    part, read = LogRange(follow=True, tail=max(0, options.tail)), not options.no_log_progress
    watched = [
        WatchedJob(client, job, JobOutput(client, job, choice=options.logs, read_progress=read, part=part))
        for job in jobs
    ]
    try:
        return await follow_to_the_end(client, watched)
    finally:
        for one in watched:
            await one.close()
