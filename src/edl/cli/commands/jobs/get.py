"""All jobs of all kinds in one table, or some by name."""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import JobSummary, all_jobs, find_job
from edl.cli.output.tables import age, table

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "list jobs: phase, size, and why"
ORDER = 60

HEADER = ("JOB", "PHASE", "NOW", "TARGET", "MIN-MAX", "PROGRESS", "ETA", "AGE", "REASON")
WIDE = (*HEADER[:-1], "LOSS", "SAMPLES/S", HEADER[-1])
FORMS = ("table", "wide", "json", "yaml", "name")
POLL_INTERVAL = 1.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", metavar="NAME", nargs="*", help="a job, or KIND/NAME; none: all")
    parser.add_argument("-o", "--output", choices=FORMS, default="table", help="(default table)")
    parser.add_argument(
        "-l", "--selector", metavar="LABELS", help="only jobs with these labels, e.g. team=a,stage!=dev"
    )
    parser.add_argument("-w", "--watch", action="store_true", help="go on, and print jobs that changed")
    parser.add_argument("--no-headers", action="store_true", help="without the line of headers")
    add_cluster_options(parser, all_namespaces=True)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _get(client, namespace, options), options)


async def _get(client: "Client", namespace: str, options: argparse.Namespace) -> int:
    import asyncio  # not above: `edl get --help` needs none of it

    jobs = await _found(client, namespace, options)
    if shown := _shown(jobs, options, namespace):
        print(shown, flush=True)
    while options.watch:
        await asyncio.sleep(POLL_INTERVAL)
        before, jobs = {job.uid: _row(job) for job in jobs}, await _found(client, namespace, options)
        changed = [job for job in jobs if before.get(job.uid) != _row(job)]
        if changed:
            print(_shown(changed, options, namespace, again=True), flush=True)
    return 0


async def _found(client: "Client", namespace: str, options: argparse.Namespace) -> list[JobSummary]:
    if options.jobs:
        return [await find_job(client, namespace, wanted) for wanted in options.jobs]
    return await all_jobs(client, None if options.all_namespaces else namespace, options.selector)


def _shown(jobs: Sequence[JobSummary], options: argparse.Namespace, namespace: str, *, again: bool = False) -> str:
    match options.output:
        case "json":
            return _json(jobs)
        case "yaml":
            from edl.install.text import yaml_text

            return yaml_text([_plain(job.raw) for job in jobs]).rstrip()
        case "name":
            return "\n".join(job.label for job in jobs)
    if not jobs:
        where = "in any namespace" if options.all_namespaces else f"in namespace {namespace}"
        return f"no jobs {where}; `edl submit FILE` makes one"
    lines = _table(jobs, wide=options.output == "wide", everywhere=options.all_namespaces).splitlines()
    return "\n".join(lines[1:] if options.no_headers or again else lines)


def _table(jobs: Sequence[JobSummary], *, wide: bool, everywhere: bool) -> str:
    now = time.time()
    rows = [row(job, now, wide=wide) for job in jobs]
    header = WIDE if wide else HEADER
    if everywhere:
        return table(("NAMESPACE", *header), [(job.namespace, *cells) for job, cells in zip(jobs, rows, strict=True)])
    return table(header, rows)


def row(job: JobSummary, now: float, *, wide: bool = False) -> tuple[object, ...]:
    *cells, reason = _row(job)
    progress = job.status.get("progress") or {}
    figures = [progress.get(name) for name in ("loss", "throughput")]
    more = tuple("" if figure is None else f"{figure:.4g}" for figure in figures) if wide else ()
    return (*cells, age(job.created, now), *more, reason)


def _row(job: JobSummary) -> tuple[object, ...]:
    """What a change of which is worth a line: all but the age."""
    sizes = "-" if job.least is None else f"{job.least}-{job.most}"
    progress = job.status.get("progress") or {}
    shown = progress.get("shown"), progress.get("eta")
    return job.label, job.stage or "new", job.now, job.target, sizes, *shown, job.reason


def _json(jobs: Sequence[JobSummary]) -> str:
    import json

    return json.dumps([_plain(job.raw) for job in jobs], indent=2)


def _plain(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody reads."""
    metadata = {name: value for name, value in raw["metadata"].items() if name != "managedFields"}
    return {**raw, "metadata": metadata}
