"""`edl scale`: ask for a size, as `kubectl scale` does. The scheduler goes on from there unless the job is pinned."""

import argparse
from typing import TYPE_CHECKING, Any

from .connect import add_cluster_options, with_cluster
from .jobs import Summary, find_job, resource_of
from .main import CommandError

if TYPE_CHECKING:
    from edl.kube.client import Client


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="NAME", help="a job, or KIND/NAME")
    parser.add_argument("size", type=int, help="trainers or workers wanted")
    parser.add_argument("--pin", action="store_true", help="hold exactly this size (annotation edl.dev/pin)")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _scale(client, namespace, options), options)


async def _scale(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    job = await find_job(client, namespace, options.job)
    check(job, options.size)
    resource = resource_of(job.kind)
    if options.pin:
        await client.patch(resource, job.name, _pinned(job, options.size), namespace=namespace)
    else:
        size = {"spec": {"replicas": options.size}}
        await client.patch(resource, job.name, size, namespace=namespace, subresource="scale")
    then = "and pinned there" if options.pin else "the scheduler goes on from there (--pin holds it)"
    print(f"{job.label}: size {options.size} asked for; {then}")
    return 0


def _pinned(job: Summary, size: int) -> dict[str, Any]:
    """Both at once: a plan between the two would hold the job at another size, or give it one to take back."""
    assert job.kind.scale is not None
    asked: Any = size
    for name in reversed(job.kind.scale.spec.strip(".").split(".")):
        asked = {name: asked}
    return {"metadata": {"annotations": {"edl.dev/pin": "true"}}, **asked}


def check(job: Summary, size: int) -> None:
    if job.kind.scale is None:
        raise CommandError(f"{job.label}: its size comes from its JobResource; `kubectl scale jobresource` that one")
    if job.least is not None and job.most is not None and not job.least <= size <= job.most:
        raise CommandError(f"{job.label}: size {size} is outside {job.least}..{job.most}, the job's own range")
