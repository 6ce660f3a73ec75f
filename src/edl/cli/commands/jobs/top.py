"""Print the use of the cluster: what there is of each resource and what is taken, node by node and job by job.

Taken means requested, which is what placing pods goes by. The numbers come from the scheduler's own snapshot.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.output.tables import table

if TYPE_CHECKING:
    from edl.kube.rest.client import Client
    from edl.scheduler.snapshot.objects import Objects
    from edl.scheduler.snapshot.types import JobFacts, NodeFacts, Snapshot

SUMMARY = "who uses the cluster: capacity, nodes, jobs and what they hold"
ORDER = 110

Amounts = Sequence[int]
BAR = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _top(client), options)


async def _top(client: "Client") -> int:
    from edl.cli.commands.jobs.plan import cluster_objects
    from edl.scheduler.snapshot.builder import build_snapshot

    objects = await cluster_objects(client)
    print(render(build_snapshot(objects), failures(objects)))
    return 0


def failures(objects: "Objects") -> dict[str, str]:
    """Why each failed job failed, by uid."""
    ended = (job for job in objects.jobs if job.status.phase.lower() == "failed")
    return {job.metadata.uid: job.status.reason or "no reason is known" for job in ended}


def render(snapshot: "Snapshot", failed: Mapping[str, str] = {}) -> str:
    """Sections for the cluster, its nodes, and its jobs with everything else that holds something."""
    if not snapshot.nodes:
        return "the cluster has no nodes"
    shown = [
        place for place, name in enumerate(snapshot.axes.names) if _total(snapshot.nodes, place) and name != "pods"
    ]
    parts = [_cluster(snapshot, shown), _nodes(snapshot, shown), _jobs(snapshot, shown, failed)]
    return "\n\n".join(part for part in parts if part)


def _total(nodes: Sequence["NodeFacts"], place: int) -> int:
    return sum(node.capacity[place] for node in nodes)


def _cluster(snapshot: "Snapshot", shown: Sequence[int]) -> str:
    """Nodes that take no new pods count in neither column: their capacity cannot be used."""
    usable = [node for node in snapshot.nodes if not node.refusal]
    rows = []
    for place in shown:
        have, used = _total(usable, place), sum(node.used[place] for node in usable)
        share = used / have if have else 0.0
        full = min(BAR, round(BAR * share))
        bar = "█" * full + "░" * (BAR - full)
        rows.append(
            (_name(snapshot, place), *(_amount(snapshot, place, n) for n in (used, have)), f"{bar} {share:4.0%}")
        )
    return table(("RESOURCE", "USED", "CAPACITY", "USE"), rows)


def _nodes(snapshot: "Snapshot", shown: Sequence[int]) -> str:
    header = ("NODE", *(_name(snapshot, place).upper() for place in shown), "STATE")
    rows = [
        (
            node.name,
            *(
                f"{_amount(snapshot, place, node.used[place])} of {_amount(snapshot, place, node.capacity[place])}"
                for place in shown
            ),
            node.refusal or "ready",
        )
        for node in snapshot.nodes
    ]
    return table(header, rows)


def _jobs(snapshot: "Snapshot", shown: Sequence[int], failed: Mapping[str, str]) -> str:
    """Why a job failed is in a last column, where there is one that did."""
    why = ("WHY",) if failed else ()
    held = [(job, _held(job, len(snapshot.axes.names))) for job in snapshot.jobs]
    rows: list[tuple[object, ...]] = [
        (
            f"{job.namespace}/{job.name}",
            job.note.lower() if job.state == "finished" else job.state,
            job.current,
            f"{job.min}-{job.max}",
            *(_amount(snapshot, place, amounts[place]) for place in shown),
            *(failed.get(job.uid, "") for _ in why),
        )
        for job, amounts in sorted(held, key=lambda pair: (-pair[1][0], pair[0].namespace, pair[0].name))
    ]
    used = [sum(node.used[place] for node in snapshot.nodes) for place in range(len(snapshot.axes.names))]
    rest = [all_of_it - sum(amounts[place] for _, amounts in held) for place, all_of_it in enumerate(used)]
    if any(rest[place] > 0 for place in shown):
        amounts_left = (_amount(snapshot, place, max(0, rest[place])) for place in shown)
        rows.append(("(all else)", "", "", "", *amounts_left, *("" for _ in why)))
    header = ("JOB", "STATE", "SIZE", "MIN-MAX", *(_name(snapshot, place).upper() for place in shown), *why)
    return table(header, rows) if rows else "no jobs, and nothing else holds anything"


def _held(job: "JobFacts", resources: int) -> list[int]:
    """What the job's pods that have a node ask for."""
    held = [0] * resources
    for role, bound in zip(job.roles, job.bound, strict=False):
        pods = sum(bound.values())
        for place, units in enumerate(role.returned.requests):
            held[place] += pods * units
    return held


def _name(snapshot: "Snapshot", place: int) -> str:
    return snapshot.axes.names[place]


def _amount(snapshot: "Snapshot", place: int, units: int) -> str:
    """Without its unit's name where the column says it."""
    from edl.scheduler.placement.resources import show

    words = show(snapshot.axes.names[place], units).split()
    return words[0] + (words[1].removesuffix("B") if len(words) > 2 else "")
