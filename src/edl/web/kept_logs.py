"""Calls for logs that Brain keeps of pods that are gone: for whoever may read logs of pods in their namespace.

Brain is asked with the server's own token, which reads everything, so the API server's word on the viewer counts: they
must see the job, and have `get` on pods/log there. The text is as the pod wrote it; who shows it makes it harmless.
"""

import asyncio
import re

import msgspec
from aiohttp import web

from edl.kube.rest.access_reviews import Access
from edl.operator.reconcile.job_key import JobKey
from edl.web.access.viewers import Viewers
from edl.web.errors import RefusedError, forbidden, not_found
from edl.web.model.history import History
from edl.web.stream import Views
from edl.web.types import KeptLogRow, KeptLogs

AT_ONCE = 8  # texts that are sent at a time: each is held in memory, 20 MiB at most
WITHIN = 120.0  # seconds to send one
PIECE = 256 << 10
_PLAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""What names and uids look like. Nothing else gets into the address of a call of ours."""


class KeptLogCalls:
    def __init__(self, views: Views, viewers: Viewers, history: History) -> None:
        self._views, self._viewers, self._history = views, viewers, history
        self._sending = 0

    def routes(self, job: str) -> list[web.RouteDef]:
        """`job` is the path of one."""
        return [
            web.get(f"{job}/logs", self._list),
            web.get(f"{job}/logs/{{pod}}", self._text, allow_head=False),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        key, uid = await self._readable(request)
        found = await self._history.logs("/".join(filter(None, (key.namespace, key.name, uid))))
        rows = [KeptLogRow(pod=one.pod, uid=one.uid, bytes=one.bytes, updated=one.updated) for one in found]
        return web.Response(body=msgspec.json.encode(KeptLogs(logs=rows)), content_type="application/json")

    async def _text(self, request: web.Request) -> web.StreamResponse:
        key, uid = await self._readable(request)
        pod = request.match_info["pod"]
        if not uid or not _PLAIN.fullmatch(pod):
            raise RefusedError(400, "bad-request", "wants the name of a pod, and the uid of its job")
        if self._sending >= AT_ONCE:
            raise RefusedError(429, "too-many", "too many logs are being read; try again in a moment")
        self._sending += 1
        try:
            return await self._send(request, await self._history.log(f"{key.namespace}/{key.name}/{uid}", pod))
        finally:
            self._sending -= 1

    async def _readable(self, request: web.Request) -> tuple[JobKey, str]:
        """The job that is asked for, and its uid if the call names one. RefusedError for whoever may not read it."""
        viewer, parts, uid = await self._viewers.of(request), request.match_info, request.query.get("uid", "")
        key = JobKey(parts["kind"], parts["namespace"], parts["name"])
        plain = all(_PLAIN.fullmatch(one) for one in (key.namespace, key.name, uid or "any"))
        if not plain or not await self._views.sees(viewer, key.kind, key.namespace):
            raise not_found(f"job {key.namespace[:80]}/{key.name[:80]}")
        if not await viewer.rights.may(Access("get", "", "pods", key.namespace, "log")):
            raise forbidden("you may not read logs in this namespace (get pods/log)")
        return key, uid

    async def _send(self, request: web.Request, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        try:
            async with asyncio.timeout(WITHIN):
                await response.prepare(request)
                for start in range(0, len(text), PIECE):
                    await response.write(text[start : start + PIECE].encode(errors="replace"))
        except TimeoutError:
            raise ConnectionResetError("the log was not read in time") from None
        return response
