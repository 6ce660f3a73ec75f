"""What the scheduler would decide next, and why. Decides nothing by itself: a dry run.

With -f from a snapshot: whatever `kubectl get nodes,pods,trainingjobs,... -A -o json` printed. Without, from the
cluster. Exit code 0 whenever a plan was made.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .connect import add_cluster_options, with_cluster
from .main import CommandError
from .tables import table

if TYPE_CHECKING:
    from edl.kube.client import Client
    from edl.scheduler.objects import Objects
    from edl.scheduler.plan import Decision, Plan

_NATIVE = (
    ("", "v1", "nodes", "Node", False),
    ("", "v1", "pods", "Pod", True),
    ("", "v1", "namespaces", "Namespace", False),
    ("", "v1", "resourcequotas", "ResourceQuota", True),
    ("", "v1", "limitranges", "LimitRange", True),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False),
    ("batch", "v1", "jobs", "Job", True),
    ("apps", "v1", "replicasets", "ReplicaSet", True),
    ("apps", "v1", "statefulsets", "StatefulSet", True),
)
HEADER = ("JOB", "NOW", "TARGET", "MIN-MAX", "REASON")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--filename",
        nargs="+",
        action="extend",
        metavar="SNAPSHOT",
        help="YAML or JSON of Kubernetes objects: files, directories, - for stdin (default: the cluster as it is)",
    )
    parser.add_argument("--policy", choices=("cfs", "fulfillment"), default="cfs", help="default: cfs")
    parser.add_argument(
        "--now", metavar="TIME", help="plan for this time, RFC 3339 or seconds since 1970 (default: now)"
    )
    parser.add_argument(
        "--max-load", default="0.97", metavar="X", help="CPU that growth may use, 0 to 1 (default: 0.97)"
    )
    parser.add_argument(
        "--available",
        choices=("limits", "requests"),
        default="limits",
        help="what is subtracted from capacity to know what is available (default: limits)",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    now = _moment(options.now)
    if options.filename is None:
        return with_cluster(lambda client, namespace: _from_cluster(client, options, now), options)
    from edl.scheduler.objects import from_plain

    from .snapshots import load_values

    return _make(from_plain(load_values(options.filename)), options, now)


def _moment(text: str | None) -> float:
    if text is None:
        return time.time()
    from edl.api import timestamp

    try:
        seconds = float(text) if text.replace(".", "", 1).isdigit() else timestamp.seconds(text)
        timestamp.text(seconds)
    except (ValueError, OverflowError, OSError) as error:
        wanted = "a time such as 2026-01-31T12:00:00Z, or seconds since 1970"
        raise CommandError(f"--now {text!r}: wants {wanted}") from error
    return seconds


def _make(objects: "Objects", options: argparse.Namespace, now: float) -> int:
    from edl.scheduler.plan import plan
    from edl.scheduler.settings import Settings, parse_load
    from edl.scheduler.snapshot import build_snapshot

    try:
        parse_load(options.max_load)
    except ValueError as error:
        raise CommandError(f"--max-load: {error}") from error
    settings = Settings(policy=options.policy, max_load=options.max_load, available=options.available)
    made = plan(build_snapshot(objects), now=now, settings=settings)
    for problem in objects.problems:
        print(f"edl: left out: {problem}", file=sys.stderr)
    print(json.dumps(as_json(made)) if options.output == "json" else as_table(made))
    return 0


def as_json(made: "Plan") -> dict[str, Any]:
    from edl.api import timestamp

    use = made.cluster
    return {
        "policy": made.policy,
        "now": timestamp.micro_text(made.now) if made.now % 1 else timestamp.text(made.now),
        "jobs": [_job(decision) for decision in made.jobs],
        "foreign": [
            {"namespace": one.namespace, "name": one.name, "placed": one.placed, "reason": one.reason}
            for one in made.foreign
        ],
        "cluster": {
            "capacity": _quantities(use.capacity),
            "used_before": _quantities(use.used_before),
            "used_after": _quantities(use.used_after),
        },
    }


def _job(decision: "Decision") -> dict[str, Any]:
    return {
        "kind": decision.kind,
        "apiVersion": decision.api_version,
        "namespace": decision.namespace,
        "name": decision.name,
        "current": decision.current,
        "target": decision.target,
        "min": decision.min,
        "max": decision.max,
        "roles": dict(decision.roles),
        "reason": decision.reason,
        "code": str(decision.code),
        "placements": {role: dict(nodes) for role, nodes in decision.placements.items()},
        "leavers": {role: dict(nodes) for role, nodes in decision.leavers.items()},
    }


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """As Kubernetes writes them."""
    from edl.api.quantity import NANO, text

    return {
        name: text(units * 10**6) if name == "cpu" else text(units * NANO, binary=name != "pods")
        for name, units in amounts.items()
    }


def as_table(made: "Plan") -> str:
    """Changes first, then those that wait, then the rest."""
    if not made.jobs and not made.foreign:
        return "no jobs and no pending pods: nothing to plan"
    parts = []
    if made.jobs:
        rows = [_row(decision) for decision in sorted(made.jobs, key=_interest)]
        parts.append(table(HEADER, rows))
    if made.foreign:
        pods = [(f"{one.namespace}/{one.name}", "yes" if one.placed else "no", one.reason) for one in made.foreign]
        parts.append(table(("PENDING POD", "ROOM", "REASON"), pods))
    parts.append(_use(made))
    return "\n\n".join(parts)


def _row(decision: "Decision") -> tuple[object, ...]:
    change = decision.target - decision.current
    target = f"{decision.target} ({change:+})" if change else str(decision.target)
    name = f"{decision.namespace}/{decision.name}"
    return name, decision.current, target, f"{decision.min}-{decision.max}", decision.reason


def _interest(decision: "Decision") -> tuple[bool, bool, str, str]:
    return decision.target == decision.current, decision.target > 0, decision.namespace, decision.name


def _use(made: "Plan") -> str:
    from edl.scheduler.resources import GPU_NAMES, show

    use = made.cluster
    words = []
    for name in ("cpu", "memory", *GPU_NAMES):
        if use.capacity.get(name):
            before, after, have = (
                show(name, amounts[name]) for amounts in (use.used_before, use.used_after, use.capacity)
            )
            words.append(f"{before.split()[0]} -> {after.split()[0]} of {have}")
    return f"{made.policy}: " + ("; ".join(words) or "no usable node")


async def _from_cluster(client: "Client", options: argparse.Namespace, now: float) -> int:
    return _make(await cluster_objects(client), options, now)


async def cluster_objects(client: "Client") -> "Objects":
    """All that a snapshot is made of, as the cluster has it now."""
    from edl.api.kinds import KINDS
    from edl.kube.errors import ApiError
    from edl.kube.resource import Resource
    from edl.scheduler.objects import from_plain

    native = [Resource(*row) for row in _NATIVE]
    ours = [Resource(kind.group, kind.versions[0], kind.plural, kind.name) for kind in KINDS]
    values: list[Any] = []
    for resource in (*native, *ours):
        try:
            found = await client.list(resource)
        except ApiError as error:
            if error.code != 404 or resource in native:
                raise
            continue  # this kind of ours is not installed
        values += [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in found.items]
    return from_plain(values)
