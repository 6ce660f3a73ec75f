"""Print what the scheduler would decide next, and why. Decides nothing by itself: a dry run.

With -f from a snapshot: whatever `kubectl get nodes,pods,trainingjobs,... -A -o json` printed. Without, from the
cluster. Exit code 0 whenever a plan was made.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.errors import CommandError
from edl.cli.output.tables import table
from edl.cli.output.terminal import harmless

if TYPE_CHECKING:
    from edl.kube.rest.client import Client
    from edl.scheduler.plan import Decision, Plan
    from edl.scheduler.snapshot.objects import Objects

SUMMARY = "what the scheduler would decide next, and why"
ORDER = 130

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
MOST_AHEAD = 30 * 86400.0
JOB_STATES = ("", "v1", "configmaps", "ConfigMap", True)
HEADER = ("JOB", "NOW", "TARGET", "MIN-MAX", "REASON")


def arguments(parser: argparse.ArgumentParser) -> None:
    from edl.scheduler.policies.registry import DEFAULT_POLICY, POLICIES

    parser.add_argument(
        "-f",
        "--filename",
        nargs="+",
        action="extend",
        metavar="SNAPSHOT",
        help="YAML or JSON of Kubernetes objects: files, directories, - for stdin (default: the cluster as it is)",
    )
    parser.add_argument("--policy", choices=tuple(POLICIES), default=DEFAULT_POLICY, help="default: %(default)s")
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
    parser.add_argument(
        "--ahead",
        metavar="TIME",
        help="what will happen in this time, such as 2h, by what jobs measured of themselves and have left to do",
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    now = _moment(options.now)
    _ahead(options)
    if options.filename is None:
        return with_cluster(lambda client, namespace: _from_cluster(client, options, now), options)
    from edl.cli.input.snapshots import load_values
    from edl.scheduler.snapshot.objects import from_plain

    return _make(from_plain(load_values(options.filename)), options, now)


def _moment(text: str | None) -> float:
    if text is None:
        return time.time()
    from edl.api.kubernetes import timestamp

    try:
        seconds = float(text) if text.replace(".", "", 1).isdigit() else timestamp.seconds(text)
        timestamp.text(seconds)
    except (ValueError, OverflowError, OSError) as error:
        wanted = "a time such as 2026-01-31T12:00:00Z, or seconds since 1970"
        raise CommandError(f"--now {text!r}: wants {wanted}") from error
    return seconds


def _ahead(options: argparse.Namespace) -> float:
    """In seconds; 0 if nothing is asked for."""
    if options.ahead is None:
        return 0.0
    from edl.api.kubernetes import duration

    try:
        seconds = duration.seconds(options.ahead)
    except ValueError as error:
        raise CommandError(f"--ahead {options.ahead!r}: {error}") from error
    if not 0 < seconds <= MOST_AHEAD:
        raise CommandError(f"--ahead {options.ahead!r}: wants a time up to {MOST_AHEAD / 86400:.0f} days, such as 2h")
    return seconds


def _make(objects: "Objects", options: argparse.Namespace, now: float) -> int:
    from edl.scheduler.plan import plan
    from edl.scheduler.settings import Settings, parse_load
    from edl.scheduler.snapshot.builder import build_snapshot

    try:
        parse_load(options.max_load)
    except ValueError as error:
        raise CommandError(f"--max-load: {error}") from error
    settings = Settings(policy=options.policy, max_load=options.max_load, available=options.available)
    taken = build_snapshot(objects)
    for problem in objects.problems:
        print(f"edl: left out: {harmless(problem)}", file=sys.stderr)
    if options.ahead is not None:
        from edl.cli.output.forecasts import show_ahead

        print(show_ahead(taken, now=now, settings=settings, ahead=_ahead(options), as_json=options.output == "json"))
        return 0
    made = plan(taken, now=now, settings=settings)
    print(json.dumps(as_json(made)) if options.output == "json" else as_table(made))
    return 0


def as_json(made: "Plan") -> dict[str, Any]:
    from edl.api.kubernetes import timestamp

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
    from edl.api.kubernetes.quantity import NANO, text

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
    from edl.scheduler.placement.resources import GPU_NAMES, show

    use = made.cluster
    words = []
    for name in ("cpu", "memory", *GPU_NAMES):
        if use.capacity.get(name):
            before, after, have = (
                show(name, amounts[name]) for amounts in (use.used_before, use.used_after, use.capacity)
            )
            words.append(f"{_without_unit(before, have)} -> {_without_unit(after, have)} of {have}")
    return f"{made.policy}: " + ("; ".join(words) or "no usable node")


def _without_unit(amount: str, whole: str) -> str:
    """`3` beside `8 CPU`, but `320 MiB` beside `32 GiB memory`: a unit is left out only where it is the same."""
    number, *unit = amount.split()
    return number if unit == whole.split()[1:] or len(unit) == 1 else f"{number} {unit[0]}"


async def _from_cluster(client: "Client", options: argparse.Namespace, now: float) -> int:
    return _make(await cluster_objects(client), options, now)


async def cluster_objects(client: "Client") -> "Objects":
    """All that a snapshot is made of, as the cluster has it now."""
    from edl.scheduler.snapshot.objects import from_plain

    return from_plain(await cluster_values(client))


async def cluster_values(client: "Client") -> list[Any]:
    """The same as plain data."""
    from edl.jobs.registry import KINDS
    from edl.kube.rest.errors import ApiError
    from edl.kube.rest.resource import Resource

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
    return values + await _job_states(client)


async def _job_states(client: "Client") -> list[Any]:
    """What jobs have measured of themselves; nothing for a user who may not read it."""
    from edl.api.labels import LABEL_UID
    from edl.kube.rest.errors import ApiError
    from edl.kube.rest.resource import Resource

    resource = Resource(*JOB_STATES)
    try:
        found = await client.list(resource, labels=LABEL_UID)
    except ApiError as error:
        if error.code != 403:
            raise
        return []
    return [{"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in found.items]
