"""Run a command in a pod of a job: of rank 0, or the one that --rank or --pod names. Without a command, a shell.

In a terminal it is interactive. The exit code is the command's own.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import JobSummary, find_job
from edl.cli.connect.pods import Pod, job_pods, state_of
from edl.cli.connect.progress import ProgressReader
from edl.cli.errors import CommandError

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "run a command in a pod of a job"
ORDER = 85

TAKES_REST = True
SHELL = ["sh", "-c", "if command -v bash > /dev/null; then exec bash; else exec sh; fi"]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="NAME", help="a job, or KIND/NAME; after it -- and the command")
    parser.add_argument("--rank", type=int, metavar="N", help="in the pod of this rank (PyTorch; default 0)")
    parser.add_argument("--pod", metavar="NAME", help="in this pod")
    parser.add_argument("-c", "--container", metavar="NAME", default="", help="in this container (default: the first)")
    parser.add_argument("--no-stdin", action="store_true", help="give the command no input")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _exec(client, namespace, options), options)


async def _exec(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    from edl.cli.connect.remote import run_remotely
    from edl.kube.rest.remote_command import CommandOptions

    job = await find_job(client, namespace, options.job)
    pod = await _pod(client, job, options)
    terminal = not options.no_stdin and sys.stdin.isatty() and sys.stdout.isatty()
    wanted = CommandOptions(
        container=options.container or pod["spec"]["containers"][0]["name"],
        stdin=not options.no_stdin,
        tty=terminal,
    )
    return await run_remotely(client, job.namespace, pod["metadata"]["name"], options.rest or SHELL, wanted)


async def _pod(client: "Client", job: JobSummary, options: argparse.Namespace) -> Pod:
    pods = {pod["metadata"]["name"]: pod for pod in await job_pods(client, job.kind, job.namespace, job.name)}
    running = {name: pod for name, pod in pods.items() if state_of(pod) == "Running"}
    if options.pod:
        if options.pod not in running:
            state = f"is {state_of(pods[options.pod]).lower()}" if options.pod in pods else "is none of its pods"
            raise CommandError(f"{options.pod} {state}; those of {job.label} that run: {_named(running)}")
        return running[options.pod]
    view = await ProgressReader(client, job.kind, job.namespace, job.name).view()
    ranks = list(view.round.pods) if view is not None and view.round else []
    if options.rank is not None and not 0 <= options.rank < len(ranks):
        known = f"its ranks are 0 to {len(ranks) - 1}" if ranks else "it has no ranks now; name a pod with --pod"
        raise CommandError(f"{job.label} has no rank {options.rank}: {known}")
    name = ranks[options.rank or 0] if ranks else next(iter(running), "")
    if name not in running:
        raise CommandError(f"{job.label} has no pod that runs: {job.reason or 'see `edl describe`'}")
    return running[name]


def _named(pods: dict[str, Pod]) -> str:
    return ", ".join(pods) or "none"
