"""`edl scale`: ask for a size, as `kubectl scale` does, and be told for how long it is held.

The request is recorded in an annotation beside the number, so that it counts though the spec has the number already.
"""

import argparse
import time
from typing import TYPE_CHECKING

from edl.api.kubernetes import timestamp
from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import JobSummary, find_job, resource_of
from edl.cli.errors import CommandError
from edl.jobs.core.user_requests import size_patch, size_request

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "ask for a size"
ORDER = 100
ANSWERED_WITHIN, POLL_INTERVAL = 3.0, 0.1


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="NAME", help="a job, or KIND/NAME")
    parser.add_argument("size", type=int, help="trainers or workers wanted")
    parser.add_argument("--pin", action="store_true", help="hold exactly this size (annotation edl.dev/pin)")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _scale(client, namespace, options), options)


async def _scale(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    job = await find_job(client, namespace, options.job)
    then = await ask_size(client, job, options.size, pin=options.pin)
    print(f"{job.label}: size {options.size} asked for; {then}")
    return 0


async def ask_size(client: "Client", job: JobSummary, size: int, *, pin: bool = False) -> str:
    """What becomes of the request, in words. CommandError if the job cannot have this size."""
    check(job, size)
    now = time.time()
    patch = size_patch(job.kind, size, now=now, pin=pin)
    await client.patch(resource_of(job.kind), job.name, patch, namespace=job.namespace)
    return "and pinned there" if pin else await _answer(client, job, size_request(size, now))


async def _answer(client: "Client", job: JobSummary, request: str) -> str:
    """For how long it is held, as soon as the operator has taken up the request."""
    import asyncio

    wanted = f"{job.kind.crd_name}/{job.name}"
    for _ in range(int(ANSWERED_WITHIN / POLL_INTERVAL)):
        found = await find_job(client, job.namespace, wanted)
        if found.scale.get("request") == request:
            return held(found, time.time()) or "the scheduler goes on from there (--pin holds it)"
        await asyncio.sleep(POLL_INTERVAL)
    return "the operator has not taken it up yet (`edl describe` says when it has)"


def held(job: JobSummary, now: float) -> str:
    """How long its size is held, in words; empty if it is not."""
    from edl.cli.output.live import duration

    hold = job.scale.get("hold") or {}
    try:
        left = timestamp.seconds(str(hold.get("until"))) - now
    except ValueError:
        return ""
    if left <= 0 or job.finished:
        return ""
    end = f"edl resume {job.name}{job.where}"
    return f"{hold.get('size')} is held for {duration(left)} (`{end}` ends that, --pin holds it for good)"


def check(job: JobSummary, size: int) -> None:
    if job.kind.scale_paths is None:
        raise CommandError(f"{job.label}: its size comes from its JobResource; `kubectl scale jobresource` that one")
    if job.least is not None and job.most is not None and not job.least <= size <= job.most:
        raise CommandError(f"{job.label}: size {size} is outside {job.least}..{job.most}, the job's own range")
