"""Emits Kubernetes Events (events.k8s.io/v1; the core view of them is the server's).

`record` never waits and never fails: a repeated Event only counts up the first one, an object with too many Events is
muted for a while, and when the server is too slow the newest are dropped and counted. Pending ones are written at the
end, within a deadline.
"""

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import msgspec

from edl.kube.cache.objects import Object
from edl.kube.controllers.lease import micro_time, utc_now
from edl.kube.controllers.workqueue import WorkQueue
from edl.kube.rest.client import CallOptions, Client
from edl.kube.rest.errors import ApiError, KubeError
from edl.kube.rest.rate_limiter import RequestPriority
from edl.kube.rest.resource import Resource

log = logging.getLogger(__name__)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
REMEMBERED = 4096  # series and talkers; the least recent is forgotten
LONGEST_NOTE = 1024  # bytes; the API refuses more
REFILL = 300.0


class Reference(msgspec.Struct, frozen=True, rename="camel"):
    """The object that an Event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    @classmethod
    def to(cls, resource: Resource, item: Object) -> "Reference":
        meta = item.metadata
        return cls(resource.api_version, resource.kind, meta.name, meta.namespace, meta.uid)


class _EventKey(msgspec.Struct, frozen=True):
    """Two Events that are equal in this are one."""

    regarding: Reference
    type: str
    reason: str
    action: str
    note: str
    controller: str


class _Series(msgspec.Struct):
    name: str
    first: datetime
    last: datetime
    count: int = 1
    written: int = 0
    written_at: float = 0.0


class EventRecorder:
    """One object may emit `burst` Events at once, then one in 5 minutes. Counts are written every `refresh` s."""

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        pending: int = 1000,
        burst: int = 25,
        refresh: float = 60.0,
        now: Callable[[], datetime] = utc_now,
        heard: Callable[[Reference, str, str, str], None] = lambda regarding, kind, reason, note: None,
    ) -> None:
        """`heard` is told of each Event that is not a repetition: regarding, type, reason, note."""
        self.dropped = 0
        self._heard = heard
        self._client, self._controller, self._instance, self._now = client, controller, instance[:128], now
        self._pending, self._burst, self._refresh = pending, float(burst), refresh
        self._series: OrderedDict[_EventKey, _Series] = OrderedDict()
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()  # uid -> (Events left, counted when)
        self._queue: WorkQueue[_EventKey] = WorkQueue()
        self._priority = RequestPriority.BACKGROUND

    def record(
        self,
        regarding: Reference,
        reason: str,
        note: str,
        *,
        kind: Literal["Normal", "Warning"] = "Normal",
        action: str = "Reconcile",
        controller: str = "",
    ) -> None:
        """`reason` and `action` are CamelCase words for machines, `note` is the sentence for people. `controller`:
        who says it, if not the recorder's own."""
        controller = controller or self._controller
        key = _EventKey(regarding, kind, reason[:128], action[:128], _shorten(note), controller)
        time, now = asyncio.get_running_loop().time(), self._now()
        series = self._series.get(key)
        if series is not None:
            self._series.move_to_end(key)
            series.count, series.last = series.count + 1, now
            self._queue.add(key, delay=series.written_at + self._refresh - time if series.written else 0.0)
        elif len(self._queue) >= self._pending or not self._may_emit(regarding, time):
            self.dropped += 1
        else:
            name = f"{regarding.name[:200]}.{uuid.uuid4().hex[:16]}"
            self._series[key] = _Series(name, now, now)
            _trim(self._series)
            self._queue.add(key)
            self._heard(regarding, key.type, key.reason, key.note)

    def _may_emit(self, regarding: Reference, time: float) -> bool:
        who = regarding.uid or regarding.name
        left, since = self._allowances.pop(who, (self._burst, time))
        left = min(self._burst, left + (time - since) / REFILL)
        self._allowances[who] = (left - 1 if left >= 1 else left, time)
        _trim(self._allowances)
        return left >= 1

    async def run(self) -> None:
        """Writes until `drain` has been called and nothing is pending."""
        await self._queue.run_worker(self._write)

    async def drain(self, timeout: float = 5.0) -> None:
        """Writes what is pending and every count that is not yet written; `run` ends. Gives up after `timeout` s."""
        self._priority = RequestPriority.EXEMPT  # whatever pace the client keeps: this is the last chance
        for key, series in self._series.items():
            if series.count > series.written:
                self._queue.add(key)
        try:
            async with asyncio.timeout(timeout):
                await self._queue.drain()
        except TimeoutError:
            log.warning("%d events were not written in time", len(self._queue))

    async def _write(self, key: _EventKey, waited: float) -> None:
        series = self._series.get(key)
        if series is None:
            return
        count, series.written_at = series.count, asyncio.get_running_loop().time()
        try:
            if series.written and await self._count_up(key, series):
                series.written = count
                return
            await self._client.create(EVENTS, self._body(key, series), **self._options(key))
            series.written = count
        except KubeError as error:
            self.dropped += 1
            self._series.pop(key, None)
            log.info("event %s about %s was not written: %s", key.reason, key.regarding.name, error)

    async def _count_up(self, key: _EventKey, series: _Series) -> bool:
        """False: the Event is gone (they last an hour), so that a new one is needed."""
        patch = {"series": {"count": series.count, "lastObservedTime": micro_time(series.last)}}
        try:
            await self._client.patch(EVENTS, series.name, patch, **self._options(key))
        except ApiError as error:
            if error.is_not_found:
                return False
            raise
        return True

    def _body(self, key: _EventKey, series: _Series) -> dict[str, Any]:
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": series.name, "namespace": _namespace(key)},
            "eventTime": micro_time(series.first),
            "reportingController": key.controller,
            "reportingInstance": self._instance,
            "action": key.action,
            "reason": key.reason,
            "type": key.type,
            "note": key.note,
            "regarding": msgspec.to_builtins(key.regarding),
        }
        if series.count > 1:
            body["series"] = {"count": series.count, "lastObservedTime": micro_time(series.last)}
        return body

    def _options(self, key: _EventKey) -> CallOptions:
        return {"namespace": _namespace(key), "priority": self._priority, "timeout": 10.0}


def _namespace(key: _EventKey) -> str:
    """Events about cluster-wide objects live in `default`."""
    return key.regarding.namespace or "default"


def _shorten(note: str) -> str:
    data = note.encode()
    return note if len(data) <= LONGEST_NOTE else data[: LONGEST_NOTE - 3].decode(errors="ignore") + "..."


def _trim(remembered: "OrderedDict[Any, Any]") -> None:
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)
