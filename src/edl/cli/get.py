"""`edl get`: all jobs of all kinds in one table, or some by name."""

import argparse
import time
from typing import TYPE_CHECKING

from .connect import add_cluster_options, with_cluster
from .jobs import Summary, all_jobs, find_job
from .tables import age, table

if TYPE_CHECKING:
    from edl.kube.client import Client

HEADER = ("JOB", "PHASE", "NOW", "TARGET", "MIN-MAX", "AGE", "REASON")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="NAME", nargs="*", help="a job, or KIND/NAME; none: all")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    add_cluster_options(parser, everywhere=True)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _get(client, namespace, options), options)


async def _get(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    if options.jobs:
        jobs = [await find_job(client, namespace, wanted) for wanted in options.jobs]
    else:
        jobs = await all_jobs(client, None if options.all_namespaces else namespace)
    print(_json(jobs) if options.output == "json" else _table(jobs, options.all_namespaces, namespace))
    return 0


def _table(jobs: list[Summary], everywhere: bool, namespace: str) -> str:
    if not jobs:
        where = "in any namespace" if everywhere else f"in namespace {namespace}"
        return f"no jobs {where}; `edl submit FILE` makes one"
    now = time.time()
    rows = [row(job, now) for job in jobs]
    if everywhere:
        return table(("NAMESPACE", *HEADER), [(job.namespace, *cells) for job, cells in zip(jobs, rows, strict=True)])
    return table(HEADER, rows)


def row(job: Summary, now: float) -> tuple[object, ...]:
    sizes = "-" if job.least is None else f"{job.least}-{job.most}"
    return (job.label, job.phase or "new", job.now, job.target, sizes, age(job.created, now), job.reason)


def _json(jobs: list[Summary]) -> str:
    import json

    return json.dumps([job.raw for job in jobs], indent=2)
