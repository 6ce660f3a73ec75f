"""`edl pause` and `edl resume`: freeze a job at its present size, and let it go again (annotation edl.dev/pause)."""

import argparse
from typing import TYPE_CHECKING

from .connect import add_cluster_options, with_cluster
from .jobs import find_job, resource_of

if TYPE_CHECKING:
    from edl.kube.client import Client

ANNOTATION = "edl.dev/pause"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="NAME", nargs="+", help="a job, or KIND/NAME")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: set_pause(client, namespace, options.jobs, paused=True), options)


async def set_pause(client: "Client", namespace: str, names: list[str], *, paused: bool) -> int:
    for wanted in names:
        job = await find_job(client, namespace, wanted)
        patch = {"metadata": {"annotations": {ANNOTATION: "true" if paused else None}}}
        await client.patch(resource_of(job.kind), job.name, patch, namespace=namespace)
        print(f"{job.label} {'stays at its present size' if paused else 'is scaled again'}")
        if not paused and (job.raw.get("spec") or {}).get("pause"):
            print(f"{job.label}: spec.pause is true in its manifest and still holds it; set that to false")
    return 0
