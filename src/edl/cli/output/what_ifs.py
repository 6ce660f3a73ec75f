"""`edl simulate` of real objects: manifests, a snapshot file, or the live cluster, run forward under each policy."""

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from edl.cli.errors import CommandError
from edl.cli.output.tables import table
from edl.cli.output.terminal import harmless

if TYPE_CHECKING:
    from edl.scheduler.settings import Settings
    from edl.scheduler.snapshot.objects import Objects

AHEAD = 30 * 86400.0
PLANS = 5000
HEADER = ("POLICY", "JOBS", "ENDED", "AVG", "P50", "P90", "MAKESPAN", "STARTED", "WAIT", "CHANGES", "LOST-GPU-H")


def simulate_cluster(options: argparse.Namespace, settings: "list[Settings]") -> int:
    from edl.cli.input.snapshots import load_values
    from edl.scheduler.snapshot.objects import from_plain

    values = load_values(options.filename or ())
    if not options.live:
        return _simulate(from_plain([*_nodes(options, values), *values]), options, settings)
    from edl.cli.commands.jobs.plan import cluster_values
    from edl.cli.connect.cluster import with_cluster

    async def live(client: Any, namespace: str) -> int:
        return _simulate(from_plain([*await cluster_values(client), *values]), options, settings)

    return with_cluster(live, options)


def _nodes(options: argparse.Namespace, values: list[Any]) -> list[dict[str, Any]]:
    """As many as the options say, unless the files have some."""
    listed = [item for value in values if isinstance(value, dict) for item in value.get("items") or [value]]
    if any(isinstance(one, dict) and one.get("kind") == "Node" for one in listed):
        return []
    has = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(options.gpu)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:05}", "labels": {"kubernetes.io/hostname": f"node-{number:05}"}},
            "status": {"capacity": has, "allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for number in range(options.nodes)
    ]


def _simulate(objects: "Objects", options: argparse.Namespace, settings: "list[Settings]") -> int:
    from msgspec import to_builtins

    from edl.scheduler.simulation.what_if import what_if
    from edl.scheduler.snapshot.builder import build_snapshot

    for problem in objects.problems:
        print(f"edl: left out: {harmless(problem)}", file=sys.stderr)
    for job in objects.invalid:
        told = f"{job.kind} {job.namespace}/{job.name}: {job.problem}"
        print(f"edl: left out: {harmless(told)}", file=sys.stderr)
    if not objects.jobs:
        raise CommandError("there is no job to simulate")
    taken, takes = build_snapshot(objects), _takes(options)
    now = time.time()
    found = [what_if(taken, now=now, settings=chosen, ahead=AHEAD, plans=PLANS, takes=takes)[0] for chosen in settings]
    if options.output == "json":
        print(json.dumps([to_builtins(one) for one in found], indent=2))
        return 0
    rows = [
        (
            one.policy,
            one.jobs,
            one.ended,
            *(f"{value:.0f}" for value in (one.avg_completion, one.p50, one.p90, one.makespan)),
            one.started,
            f"{one.avg_wait:.0f}",
            one.changes,
            f"{one.gpu_hours_lost:.1f}",
        )
        for one in found
    ]
    print(table(HEADER, rows))
    if any(one.ended < one.jobs for one in found):
        print("\njobs that do not tell what they have left never end here; --takes 1h says how long they need")
    return 0


def _takes(options: argparse.Namespace) -> float | None:
    if options.takes is None:
        return None
    from edl.api.kubernetes import duration

    try:
        seconds = duration.seconds(options.takes)
    except ValueError as error:
        raise CommandError(f"--takes {options.takes!r}: {error}") from error
    if seconds <= 0:
        raise CommandError(f"--takes {options.takes!r}: wants a time, such as 1h")
    return seconds
