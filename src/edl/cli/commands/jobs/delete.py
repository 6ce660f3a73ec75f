"""`edl delete`: delete jobs, and with them exactly what they own."""

import argparse
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import find_job, resource_of

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "delete jobs and what they own"
ORDER = 160


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="NAME", nargs="+", help="a job, or KIND/NAME")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _delete(client, namespace, options.jobs), options)


async def _delete(client: "Client", namespace: str, names: list[str]) -> int:
    for wanted in names:
        job = await find_job(client, namespace, wanted)
        # The uid: should another job take the name in between, it stays.
        await client.delete(resource_of(job.kind), job.name, namespace=namespace, uid=job.uid)
        print(f"{job.label} deleted; its pods and services follow")
    return 0
