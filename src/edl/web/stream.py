"""The one stream of a page: server-sent events of what its view shows, from the whole to every change.

A viewer who reads slowly gets fewer and larger messages, never a queue. Rights are looked at again every half minute;
who has lost them hears it and is cut off.
"""

import asyncio
from typing import Protocol

import msgspec
from aiohttp import web

from edl.jobs.registry import JOB_KIND_BY_CRD
from edl.kube.rest.access_reviews import Access
from edl.operator.reconcile.job_key import JobKey
from edl.web.access.sessions import Grant
from edl.web.access.viewers import Viewer, Viewers
from edl.web.access.visibility import listing
from edl.web.errors import RefusedError, forbidden, not_found
from edl.web.model.cluster_view import cluster_view
from edl.web.model.detail import detail_of
from edl.web.model.history import History, KeptJob
from edl.web.model.recorded import Recording
from edl.web.model.rows import job_key
from edl.web.model.state import ClusterState
from edl.web.progress import LiveProgress
from edl.web.types import ClusterView, JobDetail, PastJobs, Refusal

RECHECK = 30.0
BEAT = 15.0
PAUSE = 1.0  # between two views of a cluster or a job
STREAMS = 500
PER_VIEWER = 32


class Feed(Protocol):
    """What one view shows. `next` gives the data of an event, None if there is no news."""

    event: str
    pause: float

    async def next(self, viewer: Viewer) -> bytes | None: ...


class JobsFeed:
    event, pause = "jobs", 0.0

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._seen: int | None = None
        self._visibility: object = None

    async def next(self, viewer: Viewer) -> bytes | None:
        since = self._seen if viewer.visibility == self._visibility else None  # other rights: all anew
        message = self._state.jobs.message(since, viewer.visibility.sees)
        self._seen, self._visibility = self._state.jobs.version, viewer.visibility
        return message


class ClusterFeed:
    event, pause = "cluster", PAUSE

    def __init__(self, views: "Views") -> None:
        self._views = views
        self._seen: bytes | None = None

    async def next(self, viewer: Viewer) -> bytes | None:
        message = await self._views.cluster(viewer)
        if message is self._seen:
            return None
        self._seen = message
        return message


class JobFeed:
    event, pause = "job", PAUSE

    def __init__(self, views: "Views", key: JobKey) -> None:
        self._views, self._key = views, key
        self._seen: int | None = None

    async def next(self, viewer: Viewer) -> bytes | None:
        """To say what to do about a job is the dearest part: it is not done anew before the job has changed."""
        await self._views.look(viewer, self._key)
        touched = self._views.touched(self._key)
        if touched == self._seen:
            return None
        self._seen = touched
        return msgspec.json.encode(await self._views.job(viewer, self._key))


class Views:
    """What the calls and the streams have in common: views with the viewer's rights applied."""

    def __init__(
        self, state: ClusterState, history: History, progress: LiveProgress, recording: Recording | None = None
    ) -> None:
        self.state, self._history, self.progress = state, history, progress
        self._recording = recording
        self._cluster: tuple[int, bytes] | None = None

    async def cluster(self, viewer: Viewer) -> bytes:
        """Encoded once for all who may see it."""
        if not viewer.visibility.cluster:
            raise forbidden("the cluster as a whole is for those who may list nodes, pods and jobs in all namespaces")
        state = self.state
        if self._cluster is None or self._cluster[0] != state.turn:
            self._cluster = state.turn, msgspec.json.encode(await self._whole())
        return self._cluster[1]

    async def _whole(self) -> ClusterView:
        if self._recording is not None:
            return await self._recording.view()
        past, missing = await self._history.cluster()
        return cluster_view(self.state, past, missing)

    async def look(self, viewer: Viewer, key: JobKey) -> None:
        """The viewer looks at a job, which they may; so its progress is asked for."""
        if not await self.sees(viewer, key.kind, key.namespace):
            raise not_found(f"job {key.namespace[:80]}/{key.name[:80]}")
        await self.progress.refresh(key)

    async def sees(self, viewer: Viewer, kind: str, namespace: str) -> bool:
        """Also where there is no job any more, of which the viewer may know nothing."""
        known = JOB_KIND_BY_CRD.get(kind)
        if known is None or viewer.visibility.sees(kind, namespace):
            return known is not None
        return await viewer.rights.may(listing(known, namespace))

    async def past(self, viewer: Viewer) -> PastJobs:
        """Jobs that history knows and the cluster does not, as far as the viewer may see them."""
        rows = [row for row in await self._history.jobs() if self.state.jobs.get(row.key) is None]
        places = {(row.kind, row.namespace) for row in rows}
        seen = {place for place in places if await self.sees(viewer, *place)}
        return PastJobs(rows=[row for row in rows if (row.kind, row.namespace) in seen])

    async def kept(self, viewer: Viewer, key: JobKey) -> KeptJob:
        await self.look(viewer, key)
        return await self._history.job(key)

    async def job(self, viewer: Viewer, key: JobKey) -> JobDetail:
        await self.look(viewer, key)
        pods = await viewer.rights.may(Access("list", "", "pods", key.namespace))
        found = detail_of(self.state, key, await self._history.job(key), pods=pods)
        if found is None:
            raise not_found(f"job {key.namespace[:80]}/{key.name[:80]}")
        return found

    def touched(self, key: JobKey) -> int:
        return self.state.touched.get(job_key(*key), 0)


class Streams:
    """All that are open."""

    def __init__(self, views: Views, viewers: Viewers) -> None:
        self._views, self._viewers = views, viewers
        self._open: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(self._open.values())

    async def serve(self, request: web.Request, viewer: Viewer, feed: Feed) -> web.StreamResponse:
        if len(self) >= STREAMS or self._open.get(viewer.token, 0) >= PER_VIEWER:
            raise RefusedError(429, "too-many", "too many pages are open; close some")
        first = await feed.next(viewer)  # a refusal is an answer of its own, not a stream
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        self._open[viewer.token] = self._open.get(viewer.token, 0) + 1
        try:
            await response.prepare(request)
            await self._run(response, viewer, feed, first)
        except (ConnectionResetError, ConnectionAbortedError):
            pass  # the page was closed
        finally:
            self._open[viewer.token] -= 1
            if not self._open[viewer.token]:
                del self._open[viewer.token]
        return response

    async def _run(self, response: web.StreamResponse, viewer: Viewer, feed: Feed, first: bytes | None) -> None:
        state, loop = self._views.state, asyncio.get_running_loop()
        checked, live, message = loop.time(), None, first
        with state.listening() as changed:
            while True:
                now = state.liveness()
                if (now.live, now.why) != live:
                    live = now.live, now.why
                    await _send(response, "liveness", msgspec.json.encode(now))
                if message is not None:
                    await _send(response, feed.event, message)
                await self._wait(response, changed, feed)
                try:
                    if loop.time() - checked >= RECHECK:
                        viewer, checked = await self._viewers.by_grant(Grant(viewer.token, viewer.acts)), loop.time()
                    message = await feed.next(viewer)
                except RefusedError as refused:
                    if refused.status != 503:  # else the API server is away, and the page goes on with what it has
                        data = Refusal(error=str(refused), code=refused.code)
                        await _send(response, "refused", msgspec.json.encode(data))
                        return
                    message, checked = None, loop.time()

    async def _wait(self, response: web.StreamResponse, changed: asyncio.Event, feed: Feed) -> None:
        """Until something changed; a page about one job or the cluster is shown at most once a second."""
        polls = isinstance(feed, JobFeed) and self._views.progress.available
        try:
            async with asyncio.timeout(PAUSE if polls else BEAT):
                await changed.wait()
        except TimeoutError:
            if not polls:
                await response.write(b": still here\n\n")
        if feed.pause and changed.is_set():
            await asyncio.sleep(feed.pause)
        changed.clear()


async def _send(response: web.StreamResponse, event: str, data: bytes) -> None:
    """JSON has no line breaks, so one line of data is enough."""
    await response.write(b"event: %s\ndata: %s\n\n" % (event.encode(), data))
