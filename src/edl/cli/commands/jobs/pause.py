"""`edl pause` and `edl resume`: freeze a job at its present size, and let it go again (annotation edl.dev/pause).

Resuming also ends the hold of a size that a user asked for."""

import argparse
import time
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import JobSummary, find_job, resource_of
from edl.jobs.core.user_requests import pause_patch

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "hold a job at its present size"
ORDER = 140


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="NAME", nargs="+", help="a job, or KIND/NAME")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: set_pause(client, namespace, options.jobs, paused=True), options)


async def set_pause(client: "Client", namespace: str, names: list[str], *, paused: bool) -> int:
    for wanted in names:
        job = await find_job(client, namespace, wanted)
        await pause_job(client, job, paused=paused)
        print(f"{job.label} {'stays at its present size' if paused else 'is scaled again'}")
        if not paused and (job.raw.get("spec") or {}).get("pause"):
            print(f"{job.label}: spec.pause is true in its manifest and still holds it; set that to false")
    return 0


async def pause_job(client: "Client", job: JobSummary, *, paused: bool) -> None:
    """Resuming ends a hold, too; without one, no request is left behind."""
    patch = pause_patch(paused=paused, release=time.time() if job.scale.get("hold") else None)
    await client.patch(resource_of(job.kind), job.name, patch, namespace=job.namespace)
