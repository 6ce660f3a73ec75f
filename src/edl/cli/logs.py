"""`edl logs`: what the pods of a job wrote, each line with the pod's name when there are several."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from .connect import add_cluster_options, with_cluster
from .jobs import find_job
from .main import CommandError
from .pods import job_pods, pods_resource

if TYPE_CHECKING:
    from edl.kube.client import Client

FOREVER = 10 * 365 * 86400.0  # a log may be silent for as long as it likes


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="NAME", help="a job, or KIND/NAME")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as they write, until they end")
    parser.add_argument("--role", help="only pods of this role, e.g. trainer")
    parser.add_argument("--tail", type=int, metavar="N", help="only the last N lines of each")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _logs(client, namespace, options), options)


async def _logs(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    job = await find_job(client, namespace, options.job)
    pods = [pod["metadata"]["name"] for pod in await job_pods(client, job.kind, namespace, job.name, options.role)]
    if not pods:
        what = f"no pod of role {options.role}" if options.role else "no pods"
        raise CommandError(f"{job.label} has {what} now: {job.reason or 'see `edl describe`'}")
    query = {"follow": "true"} if options.follow else {}
    if options.tail is not None:
        query["tailLines"] = str(options.tail)
    prefixes = {pod: f"{pod}: " if len(pods) > 1 else "" for pod in pods}
    streams = [_print(client, namespace, pod, query, prefixes[pod]) for pod in pods]
    if options.follow:
        await asyncio.gather(*streams)
    else:
        for stream in streams:
            await stream
    return 0


async def _print(client: "Client", namespace: str, pod: str, query: dict[str, str], prefix: str) -> None:
    """A pod that has written nothing yet, or is gone already, does not end the others' logs."""
    from edl.kube.errors import ApiError, ConnectionLostError

    try:
        async for line in _lines(client, namespace, pod, query):
            sys.stdout.write(f"{prefix}{line}\n")
            sys.stdout.flush()
    except (ApiError, ConnectionLostError) as error:
        print(f"edl: log of {pod}: {error}", file=sys.stderr)


async def _lines(client: "Client", namespace: str, pod: str, query: dict[str, str]) -> AsyncIterator[str]:
    from edl.kube.transport import Request

    path = pods_resource().path(namespace, pod, "log")
    rest = b""
    async for chunk in client.stream(Request("GET", path, query, accept="*/*"), idle=FOREVER):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
