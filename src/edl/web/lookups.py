"""What is read anew when a page asks for it, with the viewer's own credential: Events and the manifest of a job."""

import json
from typing import Any

import yaml

from edl.jobs.core.kind import Kind
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from edl.operator.resources import resource_of
from edl.web.errors import RefusedError, forbidden, not_found
from edl.web.model.rows import integer, mapping, moment, text
from edl.web.types import EventRow, Events, Manifest

EVENTS = Resource("", "v1", "events", "Event")
MOST = 200
TROUBLED = 5  # pods whose own Events are read too


async def events_of(client: Client, namespace: str, names: list[str]) -> Events:
    """Of the objects of these names, oldest first. What may not be read is said."""
    found: list[dict[str, Any]] = []
    for name in names[: 1 + TROUBLED]:
        try:
            page = await client.list_page(
                EVENTS, namespace=namespace, fields={"involvedObject.name": name}, limit=MOST, timeout=10.0
            )
        except ApiError as error:
            return Events(events=[], missing=[_why(error)])
        found += page.items
    rows = sorted((_event(one) for one in found), key=lambda one: one.time or 0.0)
    return Events(events=rows[-MOST:], missing=[])


def _why(error: ApiError) -> str:
    if error.is_forbidden:
        return "its Events: you may not list events in this namespace"
    return f"its Events: {text(error.status.message, 200)}"


def _event(event: dict[str, Any]) -> EventRow:
    about, series = mapping(event.get("involvedObject")), mapping(event.get("series"))
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    when = next(filter(None, times), mapping(event.get("metadata")).get("creationTimestamp"))
    return EventRow(
        time=moment(when),
        type=text(event.get("type"), 40),
        object=text(f"{about.get('kind', '')}/{about.get('name', '')}".lower(), 320),
        reason=text(event.get("reason"), 120),
        message=text(event.get("message") or event.get("note")),
        count=integer(series.get("count")) or integer(event.get("count")) or 1,
    )


async def manifest_of(client: Client, kind: Kind, namespace: str, name: str) -> Manifest:
    try:
        found = await client.get(resource_of(kind), name, namespace=namespace, timeout=10.0)
    except ApiError as error:
        raise refused(error, f"job {namespace}/{name}") from None
    shown = dict(found)
    shown["metadata"] = {key: one for key, one in mapping(found.get("metadata")).items() if key != "managedFields"}
    return Manifest(yaml=yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100))


def kept_manifest(kept: str) -> Manifest:
    """As history has it, which is JSON."""
    try:
        return Manifest(yaml=yaml.safe_dump(json.loads(kept), sort_keys=False, allow_unicode=True, width=100))
    except ValueError:
        return Manifest(yaml=kept)


def refused(error: ApiError, what: str) -> RefusedError:
    if error.is_not_found:
        return not_found(what)
    if error.is_forbidden:
        return forbidden(f"you may not read {what}")
    if error.is_unauthorized:
        return RefusedError(401, "unauthorized", "your credential is no longer good; log in again")
    return RefusedError(502, "unavailable", f"the API server refuses: {text(error.status.message, 300)}")
