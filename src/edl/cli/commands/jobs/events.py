"""`edl events`: what happened to a job, or to all of them, oldest first."""

import argparse
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edl.cli.connect.cluster import add_cluster_options, with_cluster
from edl.cli.connect.jobs import find_job
from edl.cli.output.tables import age, table

if TYPE_CHECKING:
    from edl.kube.rest.client import Client

SUMMARY = "what happened, oldest first"
ORDER = 90

HEADER = ("AGE", "TYPE", "OBJECT", "REASON", "MESSAGE")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="NAME", nargs="?", help="a job, or KIND/NAME; none: everything in the namespace")
    add_cluster_options(parser)


def run(options: argparse.Namespace) -> int:
    return with_cluster(lambda client, namespace: _events(client, namespace, options.job), options)


async def _events(client: "Client", namespace: str, wanted: str | None) -> int:
    name = (await find_job(client, namespace, wanted)).name if wanted else None
    rows = event_rows(await job_events(client, namespace, name), time.time())
    print(table(HEADER, rows) if rows else "no events (Kubernetes keeps them for an hour)")
    return 0


async def job_events(client: "Client", namespace: str, job: str | None) -> list[dict[str, Any]]:
    """Events of the job itself and of everything named after it, oldest first."""
    from edl.kube.rest.resource import Resource

    page = await client.list(Resource("", "v1", "events", "Event"), namespace=namespace)
    mine = [event for event in page.items if job is None or _about(event, job)]
    return sorted(mine, key=last_seen)


def _about(event: Mapping[str, Any], job: str) -> bool:
    name = (event.get("involvedObject") or {}).get("name", "")
    return bool(name == job or name.startswith(f"{job}-"))


def last_seen(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), event["metadata"].get("creationTimestamp", "")))


def event_rows(events: list[dict[str, Any]], now: float) -> list[tuple[object, ...]]:
    return [
        (
            age(last_seen(event), now),
            event.get("type"),
            f"{event['involvedObject'].get('kind', '')}/{event['involvedObject'].get('name', '')}".lower(),
            event.get("reason"),
            event.get("message", "").replace("\n", " "),
        )
        for event in events
    ]
